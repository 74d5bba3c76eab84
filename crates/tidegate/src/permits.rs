//! From the sidecar, which is asked for permits, to the gateway, which gives them.

use tidegate_fleet::{PermitCall, PermitReply, PermitUsed, Replying};
use tidegate_gateway::dependency::{NoPermit, Permit, Permits, Used, Wanted};

/// What a sidecar is to ask.
pub(crate) fn giver(permits: Permits) -> impl Fn(PermitCall) -> Replying + Send + Sync {
    move |call| {
        let permits = permits.clone();
        Box::pin(async move { answer(&permits, call).await })
    }
}

async fn answer(permits: &Permits, call: PermitCall) -> PermitReply {
    match call {
        PermitCall::Acquire {
            dependency,
            weight,
            class,
            patience,
            hold,
        } => {
            let wanted = Wanted {
                dependency,
                weight,
                class,
                patience,
                hold,
            };
            permits.acquire(wanted).await.map_or_else(refused, held)
        }
        PermitCall::Renew { id } => match permits.renew(&id) {
            Some(lease) => PermitReply::Renewed { lease },
            None => PermitReply::NotHeld,
        },
        PermitCall::Release { id, used } => {
            let used = match used {
                PermitUsed::Answered => Used::Answered,
                PermitUsed::Failed => Used::Failed,
                PermitUsed::TimedOut => Used::TimedOut,
                PermitUsed::Unknown => Used::Unknown,
            };
            match permits.release(&id, used).await {
                true => PermitReply::Released,
                false => PermitReply::NotHeld,
            }
        }
    }
}

fn held(permit: Permit) -> PermitReply {
    PermitReply::Held {
        id: permit.id,
        fence: permit.fence,
        lease: permit.lease,
        hold: permit.hold,
    }
}

fn refused(no: NoPermit) -> PermitReply {
    match no {
        NoPermit::NoDependency => PermitReply::NoDependency,
        NoPermit::TooHeavy { most } => PermitReply::TooHeavy { most },
        NoPermit::Refused {
            refusal,
            retry_after_s,
        } => PermitReply::Refused {
            status: refusal.status().as_u16(),
            reason: refusal.label(),
            retry_after_s,
        },
        NoPermit::Draining => PermitReply::Away,
    }
}
