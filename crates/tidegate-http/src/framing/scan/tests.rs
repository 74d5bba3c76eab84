use proptest::prelude::*;

use super::*;

const HEAD_BYTES_MAX: usize = 4096;
const HEADERS_MAX: usize = 20;

/// The verdicts on `stream`, read in pieces that end where `ends` says, and what was passed on.
fn verdicts(stream: &[u8], ends: &[usize]) -> (Vec<Result<(), FramingFault>>, Vec<u8>) {
    let (mut framing, log) = Framing::new(HEAD_BYTES_MAX, HEADERS_MAX);
    let mut ends = ends.to_vec();
    ends.sort_unstable();
    ends.push(stream.len());
    let (mut start, mut passed) = (0, Vec::new());
    for end in ends {
        let piece = &stream[start..end];
        start = end;
        match framing.scan(piece) {
            Scan::Pass(count) => {
                assert_eq!(count, piece.len());
                passed.extend_from_slice(piece);
            }
            Scan::Last(count) | Scan::Fail(count) => passed.extend_from_slice(&piece[..count]),
        }
    }

    let mut verdicts = vec![Ok(()); log.0.passed.swap(0, Ordering::Relaxed) as usize];
    verdicts.extend(log.head_fault().or_else(|| log.body_fault()).map(Err));
    (verdicts, passed)
}

fn fault(request: &str) -> Option<FramingFault> {
    let (verdicts, _) = verdicts(request.as_bytes(), &[]);
    verdicts.into_iter().find_map(Result::err)
}

fn fault_of_fields(fields: &str) -> Option<FramingFault> {
    fault(&format!("POST /a HTTP/1.1\r\nHost: shop\r\n{fields}\r\n"))
}

#[test]
fn ordinary_requests_pass_whole() {
    let stream = b"GET / HTTP/1.1\r\nHost: shop:8080\r\nAccept: */*\r\n\r\n\
        \r\nPOST /a?b=c HTTP/1.1\r\nhost: shop\r\nContent-Length: 5\r\n\r\nhello\
        PUT /b HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: Chunked\r\n\r\n\
        5;name=\"v\"\r\nhello\r\n00a\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n\
        GET http://shop/x HTTP/1.1\r\nHost: SHOP:80\r\n\r\n\
        OPTIONS * HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\n\r\n\
        GET / HTTP/1.0\r\n\r\n";

    let (verdicts, passed) = verdicts(stream, &[]);

    assert_eq!(verdicts, vec![Ok(()); 6]);
    assert_eq!(passed, stream);
}

#[test]
fn lengths_that_two_readers_could_read_differently_are_faults() {
    for (fields, expected) in [
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            FramingFault::LengthAndCoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            FramingFault::LengthAndCoding,
        ),
        (
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            FramingFault::LengthAndCoding,
        ),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            FramingFault::LengthRepeated,
        ),
        (
            "Content-Length: 5\r\ncontent-length: 6\r\n",
            FramingFault::LengthRepeated,
        ),
        ("Content-Length: 5, 5\r\n", FramingFault::LengthRepeated),
        ("Content-Length: +5\r\n", FramingFault::LengthInvalid),
        ("Content-Length: -1\r\n", FramingFault::LengthInvalid),
        ("Content-Length: 0x5\r\n", FramingFault::LengthInvalid),
        ("Content-Length: 5 5\r\n", FramingFault::LengthInvalid),
        ("Content-Length: 1e3\r\n", FramingFault::LengthInvalid),
        ("Content-Length:\r\n", FramingFault::LengthInvalid),
        ("Content-Length: \"5\"\r\n", FramingFault::LengthInvalid),
        (
            "Content-Length: 18446744073709551616\r\n",
            FramingFault::LengthInvalid,
        ),
        (
            "Content-Length: 18446744073709551615\r\n",
            FramingFault::LengthInvalid,
        ),
        (
            "Content-Length: 18446744073709551614\r\n",
            FramingFault::LengthInvalid,
        ),
    ] {
        assert_eq!(fault_of_fields(fields), Some(expected), "{fields:?}");
    }
}

#[test]
fn any_coding_but_one_chunked_is_a_fault() {
    for (fields, expected) in [
        (
            "Transfer-Encoding: xchunked\r\n",
            FramingFault::CodingUnknown,
        ),
        (
            "Transfer-Encoding: chunked, identity\r\n",
            FramingFault::CodingUnknown,
        ),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            FramingFault::CodingUnknown,
        ),
        (
            "Transfer-Encoding: chunked;q=1\r\n",
            FramingFault::CodingUnknown,
        ),
        (
            "Transfer-Encoding: identity\r\n",
            FramingFault::CodingUnknown,
        ),
        (
            "Transfer-Encoding: \"chunked\"\r\n",
            FramingFault::CodingUnknown,
        ),
        ("Transfer-Encoding:\r\n", FramingFault::CodingUnknown),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
            FramingFault::CodingRepeated,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            FramingFault::CodingRepeated,
        ),
        (
            "Transfer-Encoding : chunked\r\n",
            FramingFault::SpaceBeforeColon,
        ),
        (
            "Transfer-Encoding\t: chunked\r\n",
            FramingFault::SpaceBeforeColon,
        ),
        (" Transfer-Encoding: chunked\r\n", FramingFault::FoldedLine),
        (
            "X: y\r\n\tTransfer-Encoding: chunked\r\n",
            FramingFault::FoldedLine,
        ),
        ("X: y\nTransfer-Encoding: chunked\r\n", FramingFault::BareLf),
        ("X: y\rTransfer-Encoding: chunked\r\n", FramingFault::BareCr),
        (
            "Transfer-Encoding: \x0bchunked\r\n",
            FramingFault::ControlByte,
        ),
        (
            "Transfer-Encoding: chunked\0\r\n",
            FramingFault::ControlByte,
        ),
        ("Transfer-Encoding\r\n", FramingFault::FieldName),
        (": chunked\r\n", FramingFault::FieldName),
        ("Transfer(Encoding): chunked\r\n", FramingFault::FieldName),
    ] {
        assert_eq!(fault_of_fields(fields), Some(expected), "{fields:?}");
    }
    let old = "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(fault(old), Some(FramingFault::CodingInHttp10));
}

#[test]
fn a_request_names_one_host_and_only_that() {
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nX: y\r\n\r\n", FramingFault::HostMissing),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            FramingFault::HostRepeated,
        ),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
            FramingFault::HostRepeated,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
            FramingFault::HostInvalid,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            FramingFault::HostInvalid,
        ),
        (
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
            FramingFault::HostInvalid,
        ),
        (
            "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::HostInvalid,
        ),
        (
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::HostDisagrees,
        ),
        (
            "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::HostDisagrees,
        ),
        (
            "GET https://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::HostDisagrees,
        ),
        (
            "CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n",
            FramingFault::HostDisagrees,
        ),
        (
            "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::HostInvalid,
        ),
    ] {
        assert_eq!(fault(request), Some(expected), "{request:?}");
    }
}

#[test]
fn a_request_line_is_a_method_a_target_and_a_version() {
    for (request, expected) in [
        (
            "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::RequestLine,
        ),
        (
            "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::RequestLine,
        ),
        (
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::RequestLine,
        ),
        (
            "GET / / HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::RequestLine,
        ),
        ("GET /\r\n\r\n", FramingFault::RequestLine),
        (
            "GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n",
            FramingFault::RequestLine,
        ),
        (
            "GET http://a:b:c/ HTTP/1.1\r\nHost: a:b:c\r\n\r\n",
            FramingFault::RequestLine,
        ),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", FramingFault::Version),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", FramingFault::Version),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", FramingFault::BareLf),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", FramingFault::BareLf),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", FramingFault::BareLf),
    ] {
        assert_eq!(fault(request), Some(expected), "{request:?}");
    }
}

#[test]
fn chunks_are_as_long_as_they_say_in_plain_digits() {
    for (body, expected) in [
        ("+5\r\nhello\r\n0\r\n\r\n", FramingFault::ChunkSize),
        ("-5\r\n", FramingFault::ChunkSize),
        ("0x5\r\nhello\r\n", FramingFault::ChunkSize),
        ("5 \r\nhello\r\n", FramingFault::ChunkSize),
        (" 5\r\nhello\r\n", FramingFault::ChunkSize),
        ("5 ;a\r\nhello\r\n", FramingFault::ChunkSize),
        ("\r\n", FramingFault::ChunkSize),
        (";a\r\n", FramingFault::ChunkSize),
        ("g\r\n", FramingFault::ChunkSize),
        ("10000000000000000\r\n", FramingFault::ChunkSize),
        ("5\nhello\r\n", FramingFault::BareLf),
        ("5;a\nhello\r\n", FramingFault::BareLf),
        ("5;a\rb\r\nhello\r\n", FramingFault::BareCr),
        ("5\r\nhello!\r\n", FramingFault::ChunkEnd),
        ("5\r\nhello\n0\r\n", FramingFault::ChunkEnd),
        ("0\r\nContent-Length: 3\r\n\r\n", FramingFault::Trailer),
        ("0\r\nHost: b\r\n\r\n", FramingFault::Trailer),
        ("0\r\n X: y\r\n\r\n", FramingFault::FoldedLine),
        ("0\r\nX: y\n\r\n", FramingFault::BareLf),
    ] {
        let request = format!("Transfer-Encoding: chunked\r\n\r\n{body}");
        assert_eq!(fault_of_fields(&request), Some(expected), "{body:?}");
    }
    let endless = format!("Transfer-Encoding: chunked\r\n\r\n5;{}", "a".repeat(2000));
    assert_eq!(fault_of_fields(&endless), Some(FramingFault::ChunkSize));
}

#[test]
fn a_trailer_section_has_a_largest_size_and_so_have_extensions() {
    let body = |trailers: String| {
        fault_of_fields(&format!("Transfer-Encoding: chunked\r\n\r\n{trailers}\r\n"))
    };
    let trailers = |count| body(format!("0\r\n{}", "T: v\r\n".repeat(count)));
    let trailer = |bytes| body(format!("0\r\nT: {}\r\n", "v".repeat(bytes)));
    // Five for the trailer beside its value, two for the end of the section.
    let value_bytes_max = HEAD_BYTES_MAX - 1 - 5 - 2;
    let extended = |chunks| {
        body(format!(
            "{}0\r\n",
            format!("1;{}\r\nx\r\n", "e".repeat(1000)).repeat(chunks)
        ))
    };

    assert_eq!(trailers(HEADERS_MAX), None);
    assert_eq!(trailers(HEADERS_MAX + 1), Some(FramingFault::Trailer));
    assert_eq!(trailers(10_000), Some(FramingFault::Trailer));
    assert_eq!(trailer(value_bytes_max), None);
    assert_eq!(trailer(value_bytes_max + 1), Some(FramingFault::Trailer));
    assert_eq!(extended(16), None);
    assert_eq!(extended(17), Some(FramingFault::ChunkSize));
}

#[test]
fn the_engine_sees_nothing_from_the_faulty_line_on() {
    for (sound, faulty) in [
        ("GET / HTTP/1.1\r\n", "Content-Length: x\r\nHost: a\r\n\r\n"),
        ("", "GET / HTTP/1.1\nHost: a\n\n"),
        ("GET / HTTP/1.1\r\nHost: a\r\n", "\n"),
        ("", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("GET / HTTP/1.1\r\n", "\r\n"),
    ] {
        let stream = format!("{sound}{faulty}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        for end in 0..stream.len() {
            let (verdicts, passed) = verdicts(stream.as_bytes(), &[end]);

            assert_eq!(verdicts.len(), 1, "{stream:?} split at {end}");
            // The beginning of a line has gone before its end is known.
            let line_end = sound.len() + faulty.find('\n').unwrap();
            let expected = if (sound.len()..=line_end).contains(&end) {
                end
            } else {
                sound.len()
            };
            assert_eq!(passed, &stream.as_bytes()[..expected], "split at {end}");
        }
    }
}

#[test]
fn a_head_has_a_largest_size_however_it_is_cut() {
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(2 * HEAD_BYTES_MAX));
    assert_eq!(fault(&endless), Some(FramingFault::HeadTooLarge));

    let lines = format!(
        "GET / HTTP/1.1\r\n{}",
        "X: y\r\n".repeat(HEAD_BYTES_MAX / 6)
    );
    let ends: Vec<usize> = (0..lines.len()).collect();
    assert_eq!(
        verdicts(lines.as_bytes(), &ends).0,
        [Err(FramingFault::HeadTooLarge)]
    );

    let fields = |count| fault_of_fields(&"X: y\r\n".repeat(count));
    assert_eq!(fields(HEADERS_MAX - 1), None);
    assert_eq!(fields(HEADERS_MAX), Some(FramingFault::HeadTooLarge));
}

#[test]
fn a_request_that_the_scanner_did_not_see_is_out_of_step() {
    let (mut framing, log) = Framing::new(HEAD_BYTES_MAX, HEADERS_MAX);
    framing.scan(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b");

    assert_eq!(log.next(), Ok(()));
    assert_eq!(log.next(), Err(FramingFault::OutOfStep));
    assert!(log.is_out_of_step());
}

#[test]
fn the_phase_tells_idle_from_slow() {
    let (mut framing, _log) = Framing::new(HEAD_BYTES_MAX, HEADERS_MAX);
    assert_eq!(framing.phase(), Phase::Between);
    framing.scan(b"POST / HTTP/1.1\r\nHo");
    assert_eq!(framing.phase(), Phase::Head);
    framing.scan(b"st: a\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(framing.phase(), Phase::Body);
    framing.scan(b"ab");
    assert_eq!(framing.phase(), Phase::Between);
    framing.scan(b"\r\n");
    assert_eq!(framing.phase(), Phase::Between);
}

fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(
        proptest::sample::select(vec![
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: u\r\n\r\n",
            "\r\nGET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
            "\r",
            "\n",
            "a",
        ]),
        0..6,
    )
}

proptest! {
    #[test]
    fn however_the_stream_is_cut_the_verdicts_are_the_same(
        pieces in pieces(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let stream = pieces.concat();
        let ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();

        let whole = verdicts(stream.as_bytes(), &[]);
        let cut = verdicts(stream.as_bytes(), &ends);

        prop_assert_eq!(&whole.0, &cut.0);
        prop_assert!(stream.as_bytes().starts_with(&cut.1));
        if whole.0.iter().all(Result::is_ok) {
            prop_assert_eq!(whole.1, cut.1);
        }
    }

    #[test]
    fn no_bytes_make_the_scanner_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut framing, _log) = Framing::new(128, 4);
        for piece in bytes.chunks(7) {
            framing.scan(piece);
        }
    }
}
