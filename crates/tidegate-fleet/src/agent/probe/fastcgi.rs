//! One FastCGI request without a body, and its answer.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{BODY_BYTES_MAX, ProbeError};

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const RESPONDER: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
/// The one request of a connection.
const REQUEST_ID: u8 = 1;
/// Bytes of a parameter or of all of them, so that they fit into one record.
const PARAMETERS_BYTES_MAX: usize = 32 * 1024;

/// Asks for what `parameters` name; gives back all of standard output: head, empty line, body.
pub(super) async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    parameters: &[(&str, &str)],
) -> Result<Vec<u8>, ProbeError> {
    let broken = |error: std::io::Error| ProbeError::Broken(error.to_string());
    stream
        .write_all(&request(parameters)?)
        .await
        .map_err(broken)?;
    let mut output = Vec::new();
    let mut content = [0; 65_535 + 255];
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).await.map_err(broken)?;
        let [_, kind, _, _, high, low, padding, _] = head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let record = &mut content[..length + usize::from(padding)];
        stream.read_exact(record).await.map_err(broken)?;
        match kind {
            STDOUT if output.len() + length > BODY_BYTES_MAX => {
                return Err(ProbeError::TooLong(BODY_BYTES_MAX));
            }
            STDOUT => output.extend_from_slice(&record[..length]),
            END_REQUEST => return Ok(output),
            // What it complains about is not for us.
            _ => {}
        }
    }
}

fn request(parameters: &[(&str, &str)]) -> Result<Vec<u8>, ProbeError> {
    let mut content = Vec::new();
    for (name, value) in parameters {
        for part in [name, value] {
            // Lengths from 128 on take four bytes, with the highest bit set.
            match u8::try_from(part.len()) {
                Ok(short @ ..=127) => content.push(short),
                _ => content.extend((part.len() as u32 | 1 << 31).to_be_bytes()),
            }
        }
        content.extend(name.as_bytes());
        content.extend(value.as_bytes());
    }
    if content.len() > PARAMETERS_BYTES_MAX {
        return Err(ProbeError::Unexpected("the path is too long".to_owned()));
    }
    let mut bytes = Vec::new();
    for (kind, content) in [
        (BEGIN_REQUEST, &RESPONDER[..]),
        (PARAMS, &content[..]),
        // An empty record ends a stream.
        (PARAMS, &[]),
        (STDIN, &[]),
    ] {
        let [high, low] = (content.len() as u16).to_be_bytes();
        bytes.extend([VERSION, kind, 0, REQUEST_ID, high, low, 0, 0]);
        bytes.extend(content);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let [high, low] = (content.len() as u16).to_be_bytes();
        let mut bytes = vec![VERSION, kind, 0, REQUEST_ID, high, low, padding, 0];
        bytes.extend(content);
        bytes.resize(bytes.len() + usize::from(padding), 0);
        bytes
    }

    async fn answered(records: Vec<u8>) -> Result<Vec<u8>, ProbeError> {
        let (mut ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(&records).await.unwrap();
        let (_read, mut write) = tokio::io::split(theirs);
        write.shutdown().await.unwrap();
        ask(&mut ours, &[("SCRIPT_NAME", "/status")]).await
    }

    #[tokio::test]
    async fn output_is_put_together_until_the_end_and_complaints_are_left_out() {
        let mut records = record(STDOUT, b"Content-Type: x\r\n", 7);
        records.extend(record(7, b"a complaint", 5));
        records.extend(record(STDOUT, b"\r\n{}", 0));
        records.extend(record(STDOUT, b"", 0));
        records.extend(record(END_REQUEST, &[0; 8], 0));

        assert_eq!(
            answered(records).await.unwrap(),
            b"Content-Type: x\r\n\r\n{}"
        );
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_an_error() {
        let broken = answered(record(STDOUT, b"{", 0)).await;

        assert!(matches!(broken, Err(ProbeError::Broken(_))));
    }

    #[test]
    fn long_values_have_long_lengths() {
        let long = "x".repeat(200);

        let bytes = request(&[("Q", &long)]).unwrap();

        // Begin, then the head of the parameters.
        assert_eq!(bytes[16..24], [VERSION, PARAMS, 0, 1, 0, 206, 0, 0]);
        assert_eq!(bytes[24..30], [1, 0x80, 0, 0, 200, b'Q']);
        assert!(request(&[("Q", &"x".repeat(40_000))]).is_err());
    }
}
