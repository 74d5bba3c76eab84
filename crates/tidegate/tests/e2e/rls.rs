//! The rate limit service, through the real binary, asked as Envoy asks it.

use std::future::Future;
use std::net::SocketAddr;

use http::uri::PathAndQuery;
use tidegate_lab::peers::{RedisServer, free_port};
use tidegate_rls::messages::{
    Code, DescriptorEntry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
    RateLimitResponse, Unit,
};
use tidegate_rls::{DESCRIPTORS_MAX, PATH};
use tonic::Status;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::client::get;
use crate::process::{TempDir, Tidegate};

/// A process with a service.
struct Service {
    tidegate: Tidegate,
    address: SocketAddr,
    _directory: TempDir,
}

/// Who asks.
struct Proxy(Grpc<Channel>);

impl Service {
    /// With these lines in `[rls]` and these limits, for the domain `edge`.
    fn start(rls: &str, limits: &str) -> Self {
        Self::start_with("", rls, limits)
    }

    fn start_with(sections: &str, rls: &str, limits: &str) -> Self {
        let directory = TempDir::new();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let configuration = format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\n{sections}\
             [rls]\nlisten = \"{address}\"\ndomains = [\"edge\"]\n{rls}\n{limits}"
        );
        Self {
            tidegate: Tidegate::start(&directory, &configuration),
            address,
            _directory: directory,
        }
    }

    async fn proxy(&self) -> Proxy {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        Proxy(Grpc::new(endpoint.connect_lazy()))
    }

    fn metric(&self, line: &str) -> u64 {
        let metrics = get(self.tidegate.admin, "/metrics").text();
        let mut lines = metrics.lines();
        let found = lines.find_map(|it| it.strip_prefix(line));
        let found = found.unwrap_or_else(|| panic!("{line}\n{metrics}"));
        found.trim().parse().unwrap()
    }
}

impl Proxy {
    async fn ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(PATH);
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let answer = self.0.unary(tonic::Request::new(request), path, codec);
        Ok(answer.await?.into_inner())
    }

    /// The answer about these descriptors, each a list of keys and values.
    async fn about(&mut self, descriptors: &[&[(&str, &str)]]) -> RateLimitResponse {
        self.ask(request(descriptors)).await.unwrap()
    }

    /// How many of `count` such requests pass.
    async fn passed(&mut self, count: u32, descriptors: &[&[(&str, &str)]]) -> u32 {
        let mut passed = 0;
        for _ in 0..count {
            let answer = self.about(descriptors).await;
            passed += u32::from(answer.overall_code() == Code::Ok);
        }
        passed
    }
}

fn request(descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    let entry = |&(key, value): &(&str, &str)| DescriptorEntry {
        key: key.to_owned(),
        value: value.as_bytes().to_vec(),
    };
    let descriptor = |entries: &&[(&str, &str)]| RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: descriptors.iter().map(descriptor).collect(),
        hits_addend: 0,
    }
}

fn header<'a>(answer: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let mut headers = answer.response_headers_to_add.iter();
    let found = headers.find(|header| header.key == name)?;
    Some(&found.value)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

const USER: &str =
    "[[rls.limit]]\nname = \"user\"\ndescriptor = [{ key = \"user\" }]\nrate = \"10/day\"\n";

#[test]
fn exactly_so_many_pass_and_a_refusal_says_when_to_come_back() {
    run(async {
        let service = Service::start("", USER);
        let mut proxy = service.proxy().await;

        let first = proxy.about(&[&[("user", "anna")]]).await;
        assert_eq!(first.overall_code(), Code::Ok);
        assert!(first.response_headers_to_add.is_empty());
        let status = &first.statuses[0];
        assert_eq!((status.code(), status.limit_remaining), (Code::Ok, 9));
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (10, Unit::Day));
        assert_eq!(limit.name, "user");
        assert_eq!(status.duration_until_reset.unwrap().seconds, 8_640);
        assert_eq!(proxy.passed(40, &[&[("user", "anna")]]).await, 9);

        let refused = proxy.about(&[&[("user", "anna")]]).await;
        assert_eq!(refused.overall_code(), Code::OverLimit);
        assert_eq!(refused.statuses[0].code(), Code::OverLimit);
        let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
        assert!((8_000..=8_640).contains(&wait), "{wait}");
        let policy = header(&refused, "ratelimit-policy");
        assert_eq!(policy, Some("\"user\";q=10;w=86400"));
        let body = String::from_utf8(refused.raw_body.clone()).unwrap();
        assert!(body.contains("\"violated-policies\":[\"user\"]"), "{body}");
        let kind = header(&refused, "content-type");
        assert_eq!(kind, Some("application/problem+json"));
        // Another user has another limit.
        assert_eq!(proxy.passed(12, &[&[("user", "bert")]]).await, 10);

        let of = |outcome| {
            format!(
                "tidegate_rls_limit_calls_total{{domain=\"edge\",limit=\"user\",outcome=\"{outcome}\"}}"
            )
        };
        assert_eq!(service.metric(&of("passed")), 20);
        assert_eq!(service.metric(&of("refused")), 34);
        let over = "tidegate_rls_requests_total{domain=\"edge\",outcome=\"over_limit\"}";
        assert_eq!(service.metric(over), 34);
        let metrics = get(service.tidegate.admin, "/metrics").text();
        assert!(!metrics.contains("anna"), "{metrics}");
    });
}

#[test]
fn the_most_specific_limit_is_met_and_what_meets_none_passes() {
    let limits = "
        [[rls.limit]]
        name = \"path\"
        descriptor = [{ key = \"path\" }]
        rate = \"3/day\"
        [[rls.limit]]
        name = \"api\"
        descriptor = [{ key = \"path\", prefix = \"/api/\", together = true }]
        rate = \"4/day\"
        [[rls.limit]]
        name = \"status\"
        descriptor = [{ key = \"path\", value = \"/api/status\" }]
        unlimited = true
        [[rls.limit]]
        name = \"both\"
        descriptor = [{ key = \"path\" }, { key = \"user\", value = \"anna\" }]
        rate = \"2/day\"
        [[rls.limit]]
        name = \"posts\"
        descriptor = [{ key = \"method\", value = \"POST\" }, { key = \"user\" }, { key = \"path\", not = \"/free\" }]
        match = \"part\"
        rate = \"5/day\"
    ";
    run(async {
        let service = Service::start("", limits);
        let mut proxy = service.proxy().await;

        assert_eq!(proxy.passed(9, &[&[("path", "/a")]]).await, 3);
        assert_eq!(proxy.passed(9, &[&[("path", "/b")]]).await, 3);
        assert_eq!(proxy.passed(9, &[&[("path", "/api/a")]]).await, 4);
        assert_eq!(proxy.passed(9, &[&[("path", "/api/b")]]).await, 0);
        assert_eq!(proxy.passed(9, &[&[("path", "/api/status")]]).await, 9);
        let anna = [("path", "/a"), ("user", "anna")];
        assert_eq!(proxy.passed(9, &[&anna]).await, 2);
        assert_eq!(
            proxy
                .passed(9, &[&[("path", "/a"), ("user", "bert")]])
                .await,
            9
        );
        assert_eq!(
            proxy
                .passed(9, &[&[("user", "anna"), ("path", "/a")]])
                .await,
            9
        );
        let post = [
            ("user", "bert"),
            ("path", "/x"),
            ("agent", "cli"),
            ("method", "POST"),
        ];
        assert_eq!(proxy.passed(9, &[&post]).await, 5);
        let free = [("user", "bert"), ("path", "/free"), ("method", "POST")];
        assert_eq!(proxy.passed(9, &[&free]).await, 9);

        let unlimited = proxy.about(&[&[("path", "/api/status")]]).await;
        assert_eq!(unlimited.statuses[0].limit_remaining, u32::MAX);
        let unknown = proxy.about(&[&[("nothing", "here")]]).await;
        assert_eq!(unknown.statuses[0].code(), Code::Ok);
        assert_eq!(unknown.statuses[0].current_limit, None);
    });
}

#[test]
fn a_request_spends_from_all_of_its_limits_or_from_none() {
    let limits = format!(
        "{USER}[[rls.limit]]\nname = \"all\"\ndescriptor = [{{ key = \"generic_key\" }}]\nrate = \"12/day\"\n\
         [[rls.limit]]\nname = \"tight\"\ndescriptor = [{{ key = \"shadow\" }}]\nrate = \"1/day\"\nshadow = true\n"
    );
    run(async {
        let service = Service::start("", &limits);
        let mut proxy = service.proxy().await;
        let all: &[(&str, &str)] = &[("generic_key", "all")];
        let shadow: &[(&str, &str)] = &[("shadow", "1")];

        assert_eq!(
            proxy.passed(30, &[&[("user", "anna")], all, shadow]).await,
            10
        );
        assert_eq!(
            proxy.passed(30, &[&[("user", "bert")], all, shadow]).await,
            2
        );

        let refused = proxy.about(&[all, &[("user", "bert")], shadow]).await;
        let codes: Vec<Code> = refused.statuses.iter().map(|it| it.code()).collect();
        assert_eq!(codes, [Code::OverLimit, Code::Ok, Code::Ok]);
        assert_eq!(refused.statuses[1].limit_remaining, 8);
        let shadowed = "tidegate_rls_limit_calls_total{domain=\"edge\",limit=\"tight\",outcome=\"shadow_refused\"}";
        assert!(service.metric(shadowed) >= 50);
    });
}

#[test]
fn hits_count_as_often_as_they_say_and_none_only_asks() {
    let limits = format!(
        "{USER}[[rls.limit]]\nname = \"bytes\"\ndescriptor = [{{ key = \"bytes\" }}]\nrate = \"100/day\"\ncost = 10\n\
         replaces = [\"user\"]\n"
    );
    run(async {
        let service = Service::start("headers = \"always\"", &limits);
        let mut proxy = service.proxy().await;
        let of = |name: &str, hits: u64| {
            let mut request = request(&[&[("user", name)]]);
            request.descriptors[0].hits_addend = Some(hits);
            request
        };

        let peek = proxy.ask(of("anna", 0)).await.unwrap();
        assert_eq!(peek.overall_code(), Code::Ok);
        assert_eq!(peek.statuses[0].limit_remaining, 10);
        let mut seven = request(&[&[("user", "anna")]]);
        seven.hits_addend = 7;
        let answer = proxy.ask(seven).await.unwrap();
        assert_eq!(answer.statuses[0].limit_remaining, 3);
        assert!(
            header(&answer, "ratelimit")
                .unwrap()
                .starts_with("\"user\";r=3;t=")
        );
        let too_many = proxy.ask(of("anna", 4)).await.unwrap();
        assert_eq!(too_many.overall_code(), Code::OverLimit);
        assert_eq!(
            proxy.ask(of("anna", 3)).await.unwrap().overall_code(),
            Code::Ok
        );
        let empty = proxy.ask(of("anna", 0)).await.unwrap();
        assert_eq!(empty.overall_code(), Code::OverLimit);
        // More than there ever is: no time to come back is told.
        let never = proxy.ask(of("bert", 11)).await.unwrap();
        assert_eq!(never.overall_code(), Code::OverLimit);
        assert_eq!(header(&never, "retry-after"), None);
        // Ten a hit, and the other limit is not met beside it.
        let bytes: &[(&str, &str)] = &[("bytes", "x")];
        assert_eq!(proxy.passed(12, &[bytes, &[("user", "anna")]]).await, 10);
        // Twice the same counts twice.
        let twice = [&[("user", "carl")][..], &[("user", "carl")][..]];
        assert_eq!(proxy.passed(12, &twice).await, 5);
    });
}

#[test]
fn a_rate_that_is_brought_along_is_used_instead() {
    run(async {
        let service = Service::start("", USER);
        let mut proxy = service.proxy().await;
        let brought = |unit: Unit, rate: u32| {
            let mut request = request(&[&[("user", "anna")]]);
            request.descriptors[0].limit = Some(RateLimitOverride {
                requests_per_unit: rate,
                unit: unit.into(),
            });
            request
        };

        let mut passed = 0;
        for _ in 0..30 {
            let answer = proxy.ask(brought(Unit::Day, 20)).await.unwrap();
            passed += u32::from(answer.overall_code() == Code::Ok);
        }

        assert_eq!(passed, 20);
        let none = proxy.ask(brought(Unit::Hour, 0)).await.unwrap();
        assert_eq!(none.overall_code(), Code::OverLimit);
        let senseless = proxy.ask(brought(Unit::Unknown, 1)).await.unwrap_err();
        assert_eq!(senseless.code(), tonic::Code::InvalidArgument);
    });
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() {
    run(async {
        let service = Service::start("", USER);
        let mut proxy = service.proxy().await;
        let user: &[(&str, &str)] = &[("user", "anna")];
        let mut elsewhere = request(&[user]);
        elsewhere.domain = "egde".to_owned();
        let long = "x".repeat(2_000);

        let unknown = proxy.ask(elsewhere).await.unwrap_err();
        assert_eq!(unknown.code(), tonic::Code::NotFound);
        assert!(unknown.message().contains("\"egde\""), "{unknown}");
        for wrong in [
            request(&[]),
            request(&vec![user; DESCRIPTORS_MAX + 1]),
            request(&[&[]]),
            request(&[&vec![("user", "anna"); 17]]),
            request(&[&[(&long, "anna")]]),
            request(&[&[("", "anna")]]),
        ] {
            let error = proxy.ask(wrong).await.unwrap_err();
            assert_eq!(error.code(), tonic::Code::InvalidArgument, "{error}");
        }
        assert_eq!(
            service.metric("tidegate_rls_failed_total{reason=\"invalid\"}"),
            7
        );
        assert_eq!(proxy.passed(12, &[user]).await, 10);
    });
}

#[test]
fn no_value_that_a_client_makes_up_keeps_other_limits_from_being_met() {
    let limits = "
        [[rls.limit]]
        name = \"path\"
        descriptor = [{ key = \"path\" }]
        rate = \"2/day\"
        [[rls.limit]]
        name = \"all\"
        descriptor = [{ key = \"generic_key\", value = \"all\" }]
        rate = \"5/day\"
    ";
    run(async {
        let service = Service::start("", limits);
        let mut proxy = service.proxy().await;
        // As long as all headers that Envoy takes, in each of the descriptors; and no UTF-8.
        let long = [&b"/login?"[..], &[b'a'; 60 * 1024]].concat();
        let with = |path: &[u8]| {
            let mut request = request(&[&[("path", "")], &[("generic_key", "all")]]);
            request.descriptors[0].entries[0].value = path.to_vec();
            request
        };

        for (path, expected) in [
            (&long[..], [true, true, false]),
            (b"/login\xff", [true, true, false]),
            // `all` has one left.
            (b"/other", [true, false, false]),
        ] {
            for passes in expected {
                let answer = proxy.ask(with(path)).await.unwrap();
                assert_eq!(answer.overall_code() == Code::Ok, passes, "{path:?}");
            }
        }

        let mut many = request(&vec![&[("path", "")][..]; DESCRIPTORS_MAX]);
        for descriptor in &mut many.descriptors {
            descriptor.entries[0].value = long.clone();
        }
        let answer = proxy.ask(many).await.unwrap();
        assert_eq!(answer.overall_code(), Code::OverLimit);
    });
}

#[test]
fn connections_are_no_more_than_there_may_be_and_the_next_one_waits() {
    run(async {
        let service = Service::start("connections_max = 1", USER);
        let (mut first, mut second) = (service.proxy().await, service.proxy().await);
        let user: &[(&str, &str)] = &[("user", "anna")];
        assert_eq!(first.passed(1, &[user]).await, 1);

        let descriptors = [user];
        let mut waiting = std::pin::pin!(second.about(&descriptors));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there was no room"),
            passed = first.passed(20, &descriptors) => assert_eq!(passed, 9),
        }
        drop(first);

        assert_eq!(waiting.await.overall_code(), Code::OverLimit);
    });
}

/// Calls about users that were decided without the store.
const LOST: &str =
    "tidegate_rls_limit_calls_total{domain=\"edge\",limit=\"user\",outcome=\"store_lost\"}";

#[test]
fn a_fleet_counts_together_and_each_limit_says_what_holds_without_its_store() {
    let mut redis = RedisServer::plain().unwrap();
    let store = format!("[store]\nurl = \"redis://{}\"\n", redis.address());
    let limit = |name: &str, more: &str| {
        format!(
            "[[rls.limit]]\nname = \"{name}\"\ndescriptor = [{{ key = \"{name}\" }}]\nrate = \"10/day\"\n{more}\n"
        )
    };
    let limits = limit("user", "")
        + &limit("free", "on_store_loss = \"open\"")
        + &limit("paid", "on_store_loss = \"closed\"")
        + &limit("here", "scope = \"node\"");
    run(async {
        let services = [
            Service::start_with(&store, "", &limits),
            Service::start_with(&store, "", &limits),
        ];
        let mut one = services[0].proxy().await;
        let mut two = services[1].proxy().await;

        // A machine that is busy for 8 ms is a store that is away, and then the figures are others.
        let lost = |service: &Service| service.metric(LOST);
        let mut tries = 0;
        loop {
            let before = lost(&services[0]) + lost(&services[1]);
            let name = format!("anna{tries}");
            let user: &[(&str, &str)] = &[("user", &name)];
            let here: &[(&str, &str)] = &[("here", &name)];
            let passed = [
                one.passed(6, &[user]).await,
                two.passed(12, &[user, here]).await,
                // What the store refused has cost nothing here.
                two.passed(12, &[here]).await,
                one.passed(12, &[here]).await,
            ];
            if lost(&services[0]) + lost(&services[1]) == before {
                assert_eq!(passed, [6, 4, 6, 10]);
                break;
            }
            tries += 1;
            assert!(tries < 100, "the store is never there for long");
        }

        let before = lost(&services[0]);
        redis.kill().unwrap();
        let bert: &[(&str, &str)] = &[("user", "bert")];
        assert_eq!(one.passed(20, &[bert]).await, 10);
        assert_eq!(two.passed(20, &[bert]).await, 10);
        assert_eq!(one.passed(20, &[&[("free", "bert")]]).await, 20);
        let closed = one.ask(request(&[&[("paid", "bert")]])).await.unwrap_err();
        assert_eq!(closed.code(), tonic::Code::Unavailable, "{closed}");
        assert_eq!(lost(&services[0]), before + 20);
    });
}

#[test]
fn who_says_nothing_does_not_keep_a_place_for_ever() {
    let silent: [&[u8]; 2] = [b"", b"PRI * HTTP/2"];
    let services = silent.map(|_| Service::start("connections_max = 1", USER));
    let places = services.iter().zip(silent).map(|(service, words)| {
        let mut stream = crate::client::connect(service.address);
        std::io::Write::write_all(&mut stream, words).unwrap();
        stream
    });
    let places: Vec<_> = places.collect();

    for (mut stream, service) in places.into_iter().zip(&services) {
        let mut rest = Vec::new();
        let read = std::io::Read::read_to_end(&mut stream, &mut rest);
        // Of what it has not read the system may say that it never will be.
        let closed = read.map_err(|error| error.kind());
        assert!(
            matches!(closed, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)),
            "{closed:?}"
        );
        run(async {
            let mut proxy = service.proxy().await;
            assert_eq!(proxy.passed(1, &[&[("user", "anna")]]).await, 1);
        });
    }
}

/// Sends messages as they are.
struct AsItIs;

impl tonic::codec::Encoder for AsItIs {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(
        &mut self,
        item: Vec<u8>,
        into: &mut tonic::codec::EncodeBuf<'_>,
    ) -> Result<(), Status> {
        use bytes::BufMut as _;
        into.put_slice(&item);
        Ok(())
    }
}

impl tonic::codec::Codec for AsItIs {
    type Encode = Vec<u8>;
    type Decode = RateLimitResponse;
    type Encoder = Self;
    type Decoder = tonic_prost::ProstDecoder<RateLimitResponse>;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        tonic_prost::ProstDecoder::default()
    }
}

#[test]
fn what_is_no_message_of_the_protocol_is_an_error_of_that_call_and_of_no_other() {
    let service = Service::start("", USER);

    run(async {
        let mut proxy = service.proxy().await;
        let garbage: [&[u8]; 5] = [
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            // A domain that is longer than all there is.
            b"\x0a\xff\xff\xff\xff\x0fedge",
            // A domain that is no text.
            b"\x0a\x02\xff\xfe",
            // A descriptor that breaks off.
            b"\x0a\x04edge\x12\x05\x0a",
            // The end of a group that has not begun.
            b"\x0c",
        ];
        for message in garbage {
            proxy.0.ready().await.unwrap();
            let path = PathAndQuery::from_static(PATH);
            let request = tonic::Request::new(message.to_vec());
            let answer = proxy.0.unary(request, path, AsItIs).await;
            let code = answer.unwrap_err().code();
            assert_eq!(code, tonic::Code::Internal, "{message:?}");
        }
        proxy.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(PATH);
        let long = tonic::Request::new(vec![0; 3 * 1024 * 1024]);
        let answer = proxy.0.unary(long, path, AsItIs).await;
        assert_eq!(answer.unwrap_err().code(), tonic::Code::OutOfRange);
        assert_eq!(
            service.metric("tidegate_rls_failed_total{reason=\"invalid\"}"),
            6
        );

        assert_eq!(proxy.passed(1, &[&[("user", "anna")]]).await, 1);
    });
}
