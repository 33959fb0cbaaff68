//! The words and signs of a label selector.

use std::fmt;

use crate::serve::message::Quoted;

/// One word or sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A key, a value, `in` or `notin`: which one depends on where it stands.
    Word(&'a str),
    Open,
    Close,
    Comma,
    Not,
    /// `=` or `==`.
    Equals,
    NotEquals,
    Above,
    Below,
    End,
}

/// A token and the byte it starts at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lexeme<'a> {
    pub(super) token: Token<'a>,
    pub(super) at: usize,
}

/// Splits a text into tokens, one ahead of its reader.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// The first byte after `ahead`.
    position: usize,
    ahead: Lexeme<'a>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Self { text, position: 0, ahead: Lexeme { token: Token::End, at: 0 } };
        lexer.next();
        lexer
    }

    /// The token that [`Lexer::next`] will return.
    pub(super) fn peek(&self) -> Lexeme<'a> {
        self.ahead
    }

    /// The next token, [`Token::End`] for ever after the last.
    pub(super) fn next(&mut self) -> Lexeme<'a> {
        let rest = self.text[self.position..].trim_start_matches(is_space);
        let at = self.text.len() - rest.len();
        let (token, len) = first_token(rest);
        self.position = at + len;
        std::mem::replace(&mut self.ahead, Lexeme { token, at })
    }
}

/// The token that a text starts with, and its length in bytes.
fn first_token(rest: &str) -> (Token<'_>, usize) {
    let second_is_equals = rest.as_bytes().get(1) == Some(&b'=');
    match rest.as_bytes().first() {
        None => (Token::End, 0),
        Some(b'(') => (Token::Open, 1),
        Some(b')') => (Token::Close, 1),
        Some(b',') => (Token::Comma, 1),
        Some(b'>') => (Token::Above, 1),
        Some(b'<') => (Token::Below, 1),
        Some(b'=') => (Token::Equals, if second_is_equals { 2 } else { 1 }),
        Some(b'!') if second_is_equals => (Token::NotEquals, 2),
        Some(b'!') => (Token::Not, 1),
        Some(_) => {
            let len = rest.find(|c| is_space(c) || "()=!,<>".contains(c)).unwrap_or(rest.len());
            (Token::Word(&rest[..len]), len)
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// As a message names what was found.
impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => Quoted(word).fmt(f),
            Self::Open => f.write_str("\"(\""),
            Self::Close => f.write_str("\")\""),
            Self::Comma => f.write_str("a comma"),
            Self::Not => f.write_str("\"!\""),
            Self::Equals => f.write_str("\"=\""),
            Self::NotEquals => f.write_str("\"!=\""),
            Self::Above => f.write_str("\">\""),
            Self::Below => f.write_str("\"<\""),
            Self::End => f.write_str("the end"),
        }
    }
}
