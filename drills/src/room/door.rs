//! Who is known already when they come to the room: by signing in outside it, or by a cart of another day.

use tidegate_lab::load::Request;

use super::guest::{Front, Guest, Page};

/// How often somebody looks until it is noted that there is a cart.
const LOOKS_MAX: usize = 3;
/// A page of the shop that is outside the room.
const TILL: &str = "/checkout/look";
/// What notes it, over TLS and without.
const HINTS: [&str; 2] = ["__Host-tg_resume", "tg_resume"];

impl Guest {
    /// Signs in as `uid`.
    pub(crate) async fn sign_in(&mut self, front: &Front, uid: &str) -> anyhow::Result<()> {
        self.do_outside(front, &format!("/sign-in?uid={uid}")).await
    }

    /// Number `number`, who was signed in with a cart, and comes back: all that the browser has kept is that there is something
    /// to go on with.
    pub(crate) async fn back_for_a_cart(front: &Front, number: usize) -> anyhow::Result<Self> {
        let mut before = Self::new(number);
        before.sign_in(front, &format!("cart-{number}")).await?;
        before.do_outside(front, "/add?item=7").await?;
        for _ in 0..LOOKS_MAX {
            before.go(front, TILL).await;
            let mut hints = HINTS.iter();
            let hint = hints.find_map(|name| Some((*name, before.jar.get(name)?.to_owned())));
            if let Some((name, value)) = hint {
                let mut guest = Self::new(number);
                guest.jar.plant(name, &value);
                return Ok(guest);
            }
        }
        anyhow::bail!("nobody notes that there is a cart")
    }

    async fn do_outside(&mut self, front: &Front, path: &str) -> anyhow::Result<()> {
        match self.send(front, Request::post(path, 0)).await {
            Page::Shown => Ok(()),
            other => anyhow::bail!("{path} is answered {other}"),
        }
    }
}
