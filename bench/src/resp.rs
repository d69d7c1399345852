//! A connection that speaks RESP, as bare as it can be: commands in a row, and their replies.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use tidegate::script::RedisReply;

/// The bytes of one command.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A connection to a server.
pub struct Connection {
    out: TcpStream,
    replies: Replies<BufReader<TcpStream>>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// If no server answers at `at`.
    pub fn open(at: SocketAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot connect to {at}: {error}");
        let out = TcpStream::connect(at).map_err(failed)?;
        out.set_nodelay(true).map_err(failed)?;
        let input = out.try_clone().map_err(failed)?;
        Ok(Self { out, replies: Replies(BufReader::new(input)) })
    }

    /// Sends the bytes of commands.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn send(&mut self, commands: &[u8]) -> Result<(), String> {
        self.out.write_all(commands).map_err(lost)
    }

    /// The next reply.
    ///
    /// # Errors
    /// When the connection is lost, or the reply is an error.
    pub fn reply(&mut self) -> Result<RedisReply, String> {
        self.replies.next()
    }

    /// Sends a command, and waits for its reply.
    ///
    /// # Errors
    /// When the connection is lost, or the reply is an error.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<RedisReply, String> {
        self.send(&command(words))?;
        self.reply()
    }
}

/// The replies on a connection.
struct Replies<R>(R);

impl<R: BufRead> Replies<R> {
    /// The next reply.
    ///
    /// # Errors
    /// When the connection is lost, or the reply is an error.
    fn next(&mut self) -> Result<RedisReply, String> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).map_err(lost)?;
        let (kind, rest) =
            line.trim_ascii_end().split_first().ok_or("the connection was closed")?;
        let text = String::from_utf8_lossy(rest);
        let number = || text.parse::<i64>().map_err(|_| format!("a reply begins with {text:?}"));
        match kind {
            b'+' => Ok(RedisReply::Bytes(rest.to_vec())),
            b'-' => Err(format!("the server answered: {text}")),
            b':' => number().map(RedisReply::Int),
            b'$' => self.bytes(number()?),
            b'*' => self.array(number()?),
            _ => Err(format!("a reply begins with {:?}", String::from_utf8_lossy(&line))),
        }
    }

    fn bytes(&mut self, length: i64) -> Result<RedisReply, String> {
        let Ok(length) = usize::try_from(length) else { return Ok(RedisReply::Nil) };
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).map_err(lost)?;
        bytes.truncate(length);
        Ok(RedisReply::Bytes(bytes))
    }

    fn array(&mut self, length: i64) -> Result<RedisReply, String> {
        if length < 0 {
            return Ok(RedisReply::Nil);
        }
        (0..length).map(|_| self.next()).collect::<Result<_, _>>().map(RedisReply::Array)
    }
}

fn lost(error: std::io::Error) -> String {
    format!("the connection was lost: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<RedisReply, String> {
        Replies(bytes).next()
    }

    #[test]
    fn a_command_is_an_array_of_words() {
        assert_eq!(command(&[b"GET", b"a\r\n"]), b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }

    #[test]
    fn replies_are_read_whatever_is_in_them() {
        let bytes = RedisReply::Bytes(b"a\r\nb".to_vec());
        assert_eq!(first(b"$4\r\na\r\nb\r\n"), Ok(bytes.clone()));
        assert_eq!(first(b"$-1\r\n"), Ok(RedisReply::Nil));
        let array = RedisReply::Array(vec![RedisReply::Int(-2), bytes]);
        assert_eq!(first(b"*2\r\n:-2\r\n$4\r\na\r\nb\r\n"), Ok(array));
    }

    #[test]
    fn an_error_and_an_end_are_reported() {
        let message = first(b"-NOSCRIPT none\r\n").unwrap_err();
        assert!(message.contains("NOSCRIPT none"), "{message}");
        assert!(first(b"").is_err());
        assert!(first(b"$9\r\nab").is_err());
    }
}
