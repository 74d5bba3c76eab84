//! All metrics in the text format of Prometheus.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
    prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tidegate_core::admission::{Reason, Trigger};
use tidegate_core::facts::Class;
use tidegate_core::journal::End;
use tidegate_http::framing::FramingFault;
use tidegate_http::refusal::Refusal;
use tidegate_store::desk::Desk;

use crate::classify::Malformed;
use crate::connections::{Connections, Kind, TurnedAway};
use crate::context::{App, Shared, Thread};
use crate::metrics::histogram::{Histogram, HistogramTotal};
use crate::metrics::recorder::{AppCells, Cell, ClassCells, WorkCells, total};
use crate::metrics::{Completion, Recorder};
use crate::serve::Ending;
use crate::upstream::UpstreamFailure;

/// Renders what all threads have counted, and the gauges of the moment.
#[derive(Debug)]
pub struct Exposition(Registry);

/// The media type of [`Exposition::text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

pub(super) struct Source {
    pub(super) threads: Vec<Arc<Thread>>,
    connections: Arc<Connections>,
}

/// One metric while its rows are written.
pub(super) struct Rows<'a>(MetricEncoder<'a>);

impl Exposition {
    /// Metrics of a gateway with these threads, of which there is at least one.
    pub(crate) fn new(threads: Vec<Arc<Thread>>, connections: Arc<Connections>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Source {
            threads,
            connections,
        }));
        Self(registry)
    }

    /// The page.
    pub fn text(&self) -> String {
        let mut page = String::with_capacity(16 * 1024);
        prometheus_text::encode(&mut page, &self.0).expect("a string takes all that is written");
        page
    }
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let listener = self.shared().map(|shared| &shared.plan.listener);
        if listener.is_some_and(|listener| listener.address.is_none()) {
            // Nothing is carried: zeros would say that nothing came.
            return self.others(&mut encoder);
        }
        self.admissions(&mut encoder)?;
        self.shadow(&mut encoder)?;
        self.work(&mut encoder)?;
        self.spans(&mut encoder)?;
        self.answers(&mut encoder)?;
        self.faults(&mut encoder)?;
        self.gates(&mut encoder)?;
        self.levels(&mut encoder)?;
        self.recoveries(&mut encoder)?;
        self.upstreams(&mut encoder)?;
        self.journals(&mut encoder)?;
        self.clients(&mut encoder)?;
        self.dependencies(&mut encoder)?;
        self.breakers(&mut encoder)?;
        self.rates(&mut encoder)?;
        self.rooms(&mut encoder)?;
        self.sessions(&mut encoder)?;
        self.store(&mut encoder)?;
        self.others(&mut encoder)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Source")
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

impl Source {
    pub(super) fn apps(&self) -> impl Iterator<Item = (usize, &App, &str)> {
        let apps = self
            .threads
            .first()
            .map_or(&[][..], |thread| thread.shared.applications());
        apps.iter()
            .enumerate()
            .map(|(index, app)| (index, app, app.plan.name.as_str()))
    }

    /// What all threads share.
    pub(super) fn shared(&self) -> Option<&Shared> {
        self.threads.first().map(|thread| &*thread.shared)
    }

    /// Where sessions are kept, if they are.
    pub(super) fn desk(&self) -> Option<&Desk> {
        self.shared()?.desk.as_ref()
    }

    pub(super) fn sum(&self, of: impl Fn(&Recorder) -> &Cell) -> u64 {
        total(&self.threads, of)
    }

    fn class_sum(&self, app: usize, class: Class, of: impl Fn(&ClassCells) -> &Cell) -> u64 {
        self.sum(|recorder| of(&recorder.apps[app].classes[class.index()]))
    }

    fn app_sum(&self, app: usize, of: impl Fn(&AppCells) -> &Cell) -> u64 {
        self.sum(|recorder| of(&recorder.apps[app]))
    }

    fn admissions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut rows = counter(
            encoder,
            "tidegate_arrivals",
            "Requests that arrived for an application",
        )?;
        for (app, _, name) in self.apps() {
            for class in Class::ALL {
                let count = self.class_sum(app, class, |cells| &cells.arrivals);
                rows.count(&[("app", name), ("class", class.name())], count)?;
            }
        }
        let help = "Requests whose class nothing told, so that they count as anonymous";
        let mut rows = counter(encoder, "tidegate_unlabelled", help)?;
        for (app, _, name) in self.apps() {
            rows.count(
                &[("app", name)],
                self.app_sum(app, |cells| &cells.unlabelled),
            )?;
        }
        let help = "Requests that were let in, at once or after a wait in the queue";
        let mut rows = counter(encoder, "tidegate_admitted", help)?;
        for (app, _, name) in self.apps() {
            for class in Class::ALL {
                let labels = |how| [("app", name), ("class", class.name()), ("how", how)];
                let count = self.class_sum(app, class, |cells| &cells.admitted_at_once);
                rows.count(&labels("at_once"), count)?;
                let count = self.class_sum(app, class, |cells| &cells.admitted_waited);
                rows.count(&labels("waited"), count)?;
            }
        }
        let help = "Requests for an application that were answered without it, by reason";
        let mut rows = counter(encoder, "tidegate_refused", help)?;
        for (app, _, name) in self.apps() {
            for class in Class::ALL {
                for refusal in Refusal::ALL {
                    let count = self.class_sum(app, class, |cells| &cells.refused[refusal.index()]);
                    let reason = ("reason", refusal.label());
                    rows.count(&[("app", name), ("class", class.name()), reason], count)?;
                }
            }
        }
        Ok(())
    }

    fn shadow(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What enforcing would have done with requests in shadow mode";
        let mut rows = counter(encoder, "tidegate_shadow", help)?;
        for (app, _, name) in self.apps() {
            for class in Class::ALL {
                let labels =
                    |verdict| [("app", name), ("class", class.name()), ("verdict", verdict)];
                let count = self.class_sum(app, class, |cells| &cells.shadow_admit);
                rows.count(&labels("admit"), count)?;
                let count = self.class_sum(app, class, |cells| &cells.shadow_wait);
                rows.count(&labels("wait"), count)?;
                for refusal in Reason::ALL.map(Refusal::from) {
                    let count =
                        self.class_sum(app, class, |cells| &cells.shadow_refuse[refusal.index()]);
                    rows.count(&labels(refusal.label()), count)?;
                }
            }
        }
        Ok(())
    }

    fn work(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests the application has finished, by what that was worth to the caller";
        let rows = counter(encoder, "tidegate_completions", help)?;
        self.work_rows(
            rows,
            |work, completion| &work.completions[completion],
            |count| count,
        )?;
        let help = "Time that slots of the application were taken, by what it was worth";
        let rows = counter(encoder, "tidegate_worker_seconds", help)?;
        let seconds = |nanos| nanos as f64 / 1e9;
        self.work_rows(
            rows,
            |work, completion| &work.slot_nanos[completion],
            seconds,
        )
    }

    fn work_rows<V: EncodeCounterValue>(
        &self,
        mut rows: Rows<'_>,
        of: impl Fn(&WorkCells, usize) -> &Cell,
        unit: impl Fn(u64) -> V,
    ) -> fmt::Result {
        for (index, app, name) in self.apps() {
            for (route_index, route) in app.plan.routes.iter().enumerate() {
                for class in Class::ALL {
                    for completion in Completion::ALL {
                        let sum = self.sum(|recorder| {
                            let work = &recorder.apps[index].routes[route_index][class.index()];
                            of(work, completion.index())
                        });
                        let labels = [
                            ("app", name),
                            ("route", route.name.as_str()),
                            ("class", class.name()),
                            ("outcome", completion.label()),
                        ];
                        rows.count(&labels, unit(sum))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn spans(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time that admitted requests spent in the queue";
        let rows = metric(
            encoder,
            "tidegate_queue_wait_seconds",
            help,
            MetricType::Histogram,
        )?;
        self.histogram_rows(rows, |cells| &cells.queue_wait)?;
        let help = "Time that requests held a slot of the application";
        let rows = metric(
            encoder,
            "tidegate_service_seconds",
            help,
            MetricType::Histogram,
        )?;
        self.histogram_rows(rows, |cells| &cells.service)
    }

    fn histogram_rows(
        &self,
        mut rows: Rows<'_>,
        of: impl Fn(&ClassCells) -> &Histogram,
    ) -> fmt::Result {
        for (app, _, name) in self.apps() {
            for class in Class::ALL {
                let parts = self
                    .threads
                    .iter()
                    .map(|thread| of(&thread.recorder.apps[app].classes[class.index()]));
                let total = Histogram::total(parts);
                rows.histogram(&[("app", name), ("class", class.name())], &total)?;
            }
        }
        Ok(())
    }

    fn answers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Answers to requests for an application, whoever gave them, by status";
        let mut rows = counter(encoder, "tidegate_answers", help)?;
        for (app, _, name) in self.apps() {
            for (digit, code) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
                let count = self.app_sum(app, |cells| &cells.answers[digit]);
                rows.count(&[("app", name), ("code", code)], count)?;
            }
        }
        Ok(())
    }

    fn faults(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Failures of the application or of the way to it";
        let mut rows = counter(encoder, "tidegate_upstream_failures", help)?;
        for (app, _, name) in self.apps() {
            for failure in UpstreamFailure::ALL {
                let count = self.app_sum(app, |cells| &cells.upstream_failures[failure.index()]);
                rows.count(&[("app", name), ("reason", failure.label())], count)?;
            }
        }
        let help = "Requests refused because their framing is ambiguous or broken";
        let mut rows = counter(encoder, "tidegate_bad_requests", help)?;
        for fault in FramingFault::ALL {
            let count = self.sum(|recorder| &recorder.bad_requests[fault.index()]);
            rows.count(&[("reason", fault.label())], count)?;
        }
        let help = "Requests refused before they belonged to an application";
        let mut rows = counter(encoder, "tidegate_turned_away", help)?;
        for refusal in Refusal::ALL {
            let count = self.sum(|recorder| &recorder.turned_away[refusal.index()]);
            rows.count(&[("reason", refusal.label())], count)?;
        }
        let help = "Request headers that were ignored because they make no sense";
        let mut rows = counter(encoder, "tidegate_malformed_headers", help)?;
        for header in Malformed::ALL {
            let count = self.sum(|recorder| &recorder.malformed[header.index()]);
            rows.count(&[("header", header.label())], count)?;
        }
        Ok(())
    }

    fn gates(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gates: Vec<_> = self
            .apps()
            .map(|(_, app, name)| (name, app.gate.snapshot()))
            .collect();
        let help = "Requests that may be inside the application at once";
        let mut rows = gauge(encoder, "tidegate_limit", help)?;
        for (name, gate) in &gates {
            rows.gauge(&[("app", name)], gate.limit)?;
        }
        let help = "Mean time to the first byte that the limit takes for the one without a queue";
        let mut rows = gauge(encoder, "tidegate_limit_baseline_seconds", help)?;
        for (name, gate) in &gates {
            if let Some(baseline) = gate.insight.baseline {
                rows.gauge(&[("app", name)], baseline.as_secs_f64())?;
            }
        }
        let help = "Present time to the first byte against that";
        let mut rows = gauge(encoder, "tidegate_limit_inflation_ratio", help)?;
        for (name, gate) in &gates {
            if let Some(inflation) = gate.insight.inflation {
                rows.gauge(&[("app", name)], inflation)?;
            }
        }
        let help = "Whether the limit is being moved on purpose, to see what throughput does";
        let mut rows = gauge(encoder, "tidegate_limit_probing", help)?;
        for (name, gate) in &gates {
            rows.gauge(&[("app", name)], u32::from(gate.insight.probing))?;
        }
        let mut rows = gauge(
            encoder,
            "tidegate_in_flight",
            "Requests inside the application",
        )?;
        for (name, gate) in &gates {
            for class in Class::ALL {
                let count = gate.in_flight_by_class[class.index()];
                rows.gauge(&[("app", name), ("class", class.name())], count)?;
            }
        }
        let mut rows = gauge(encoder, "tidegate_queue_length", "Requests in the queue")?;
        for (name, gate) in &gates {
            for class in Class::ALL {
                let count = gate.queued_by_class[class.index()];
                rows.gauge(&[("app", name), ("class", class.name())], count)?;
            }
        }
        let help = "Requests that may be in the queue at once";
        let mut rows = gauge(encoder, "tidegate_queue_bound", help)?;
        for (name, gate) in &gates {
            rows.gauge(&[("app", name)], gate.queue_bound)?;
        }
        let help = "Memory that requests in the queue may hold";
        let mut rows = gauge(encoder, "tidegate_queue_bytes", help)?;
        for (name, gate) in &gates {
            rows.gauge(&[("app", name)], gate.queued_bytes)?;
        }
        Ok(())
    }

    fn levels(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Classes that are let in, from critical on, the one that is cut as a part";
        let mut rows = gauge(encoder, "tidegate_level", help)?;
        for (_, app, name) in self.apps() {
            rows.gauge(&[("app", name)], app.gate.snapshot().level.classes())?;
        }
        let slowed: Vec<_> = self
            .apps()
            .filter_map(|(_, app, name)| Some((name, app.gate.slowed()?)))
            .collect();
        if slowed.is_empty() {
            return Ok(());
        }
        let help = "Share of the usual that is let in because the whole fleet is to let in less";
        let mut rows = gauge(encoder, "tidegate_fleet_slow_ratio", help)?;
        for &(name, (share, _)) in &slowed {
            rows.gauge(&[("app", name)], share)?;
        }
        let help =
            "Classes that are let in by that, from critical on, the one that is cut as a part";
        let mut rows = gauge(encoder, "tidegate_fleet_slow_level", help)?;
        for (name, (_, level)) in slowed {
            rows.gauge(&[("app", name)], level.classes())?;
        }
        Ok(())
    }

    fn recoveries(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshots = self
            .apps()
            .map(|(_, app, name)| (name, app.gate.snapshot()));
        let (recoveries, in_time): (Vec<_>, Vec<_>) = snapshots
            .map(|(name, gate)| ((name, gate.recovery), (name, gate.in_time)))
            .unzip();
        let help = "Part of the work that was in time, over the last second or two with any";
        let mut rows = gauge(encoder, "tidegate_in_time_ratio", help)?;
        for (name, part) in in_time {
            rows.gauge(&[("app", name)], part.unwrap_or(1.0))?;
        }
        let help = "1 during an escape from overload that feeds itself";
        let mut rows = gauge(encoder, "tidegate_escaping", help)?;
        for (name, recovery) in &recoveries {
            rows.gauge(&[("app", name)], u32::from(recovery.escaping.is_some()))?;
        }
        let help = "Escapes from overload that feeds itself, by what began them";
        let mut rows = counter(encoder, "tidegate_escapes", help)?;
        for (name, recovery) in &recoveries {
            for trigger in Trigger::ALL {
                let labels = [("app", *name), ("trigger", trigger.name())];
                rows.count(&labels, recovery.begun[trigger.index()])?;
            }
        }
        let help = "Time spent in such escapes";
        let mut rows = counter(encoder, "tidegate_escape_seconds", help)?;
        for (name, recovery) in &recoveries {
            rows.count(&[("app", name)], recovery.lasted.as_secs_f64())?;
        }
        let help =
            "How often one request at a time was let in, to drain a queue in the application";
        let mut rows = counter(encoder, "tidegate_escape_drains", help)?;
        for (name, recovery) in &recoveries {
            rows.count(&[("app", name)], recovery.drains)?;
        }
        Ok(())
    }

    fn upstreams(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let upstreams: Vec<_> = self
            .apps()
            .map(|(_, app, name)| (name, app.upstream.connections()))
            .collect();
        let help = "Connections to the application";
        let mut rows = gauge(encoder, "tidegate_upstream_connections", help)?;
        for (name, connections) in &upstreams {
            rows.gauge(&[("app", name), ("state", "idle")], connections.idle)?;
            rows.gauge(&[("app", name), ("state", "busy")], connections.busy)?;
        }
        let help = "Bytes of answers buffered for clients slower than the application";
        let mut rows = gauge(encoder, "tidegate_response_buffer_bytes", help)?;
        for (name, connections) in &upstreams {
            rows.gauge(&[("app", name)], connections.response_buffer_bytes)?;
        }
        Ok(())
    }

    fn journals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let journals = || {
            self.apps().filter_map(|(_, app, name)| {
                let progress = app.gate.journal()?.progress();
                Some((name, progress))
            })
        };
        let help = "Bytes written to the decision log";
        let mut rows = counter(encoder, "tidegate_decision_log_bytes", help)?;
        for (name, progress) in journals() {
            rows.count(&[("app", name)], progress.bytes())?;
        }
        let help = "Decision logs that have ended before the process, by reason";
        let mut rows = counter(encoder, "tidegate_decision_log_ended", help)?;
        for (name, progress) in journals() {
            for end in [End::Full, End::Behind, End::Failed] {
                let ended = u64::from(progress.end() == Some(end));
                rows.count(&[("app", name), ("reason", end.name())], ended)?;
            }
        }
        Ok(())
    }

    fn clients(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut rows = gauge(encoder, "tidegate_client_connections", "Client connections")?;
        for kind in Kind::ALL {
            rows.gauge(&[("kind", kind.label())], self.connections.open(kind))?;
        }
        let help =
            "Client connections that were closed without service, or let in for health paths only";
        let mut rows = counter(encoder, "tidegate_connections_refused", help)?;
        for reason in TurnedAway::ALL {
            let count = self.connections.turned_away(reason);
            rows.count(&[("reason", reason.label())], count)?;
        }
        let help = "Client connections that have ended, by how";
        let mut rows = counter(encoder, "tidegate_connections_ended", help)?;
        for ending in Ending::ALL {
            let count = self.sum(|recorder| &recorder.endings[ending.index()]);
            rows.count(&[("how", ending.label())], count)?;
        }
        let help = "Times that the listener could not accept a connection";
        let mut rows = counter(encoder, "tidegate_accept_errors", help)?;
        rows.count(&[], self.connections.accept_errors())?;
        let help = "Whether new requests are welcome: 0 from the beginning of a drain on";
        let mut rows = gauge(encoder, "tidegate_ready", help)?;
        let draining = self
            .threads
            .first()
            .is_some_and(|thread| thread.shared.is_draining());
        rows.gauge(&[], u32::from(!draining))
    }
}

impl Rows<'_> {
    pub(super) fn count(
        &mut self,
        labels: &[(&str, &str)],
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        self.0
            .encode_family(&labels)?
            .encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    pub(super) fn gauge(
        &mut self,
        labels: &[(&str, &str)],
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_gauge(&value)
    }

    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        total: &HistogramTotal,
    ) -> fmt::Result {
        self.0
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(total.sum_seconds, total.count, &total.buckets, None)
    }
}

pub(super) fn counter<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<Rows<'a>, fmt::Error> {
    metric(encoder, name, help, MetricType::Counter)
}

pub(super) fn gauge<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<Rows<'a>, fmt::Error> {
    metric(encoder, name, help, MetricType::Gauge)
}

pub(super) fn metric<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
    kind: MetricType,
) -> Result<Rows<'a>, fmt::Error> {
    Ok(Rows(encoder.encode_descriptor(name, help, None, kind)?))
}
