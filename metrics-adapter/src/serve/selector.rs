//! Label selectors as in a request's `labelSelector` parameter.
//!
//! Source of the grammar and its meaning: `k8s.io/apimachinery/pkg/labels` (`selector.go`). Requirements are joined
//! by commas and all must hold:
//!
//! | written | holds where the label |
//! |---|---|
//! | `key=v`, `key==v`, `key in (v,w)` | is there, with one of the values |
//! | `key!=v`, `key notin (v,w)` | is not there, or has another value |
//! | `key`, `!key` | is there; is not there |
//! | `key>n`, `key<n` | is there and a whole number above or below n |

mod token;

use super::message::Quoted;
use super::names::{is_label_key, is_label_value};
use token::{Lexeme, Lexer, Token};

/// A selector, borrowed from its text. The empty one matches everything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selector<'a> {
    requirements: Vec<Requirement<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Requirement<'a> {
    key: &'a str,
    condition: Condition<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum Condition<'a> {
    In(Vec<&'a str>),
    NotIn(Vec<&'a str>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

/// Where and why a text is not a selector.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {character}: {problem}")]
pub(super) struct SelectorError {
    /// Counted from 1.
    character: usize,
    problem: String,
}

impl<'a> Selector<'a> {
    /// Reads a selector, already decoded from its URL form.
    pub(super) fn parse(text: &'a str) -> Result<Self, SelectorError> {
        let mut parser = Parser { text, lexer: Lexer::new(text) };
        let mut requirements = Vec::new();
        if parser.lexer.peek().token == Token::End {
            return Ok(Self { requirements });
        }
        loop {
            requirements.push(parser.requirement()?);
            let lexeme = parser.lexer.next();
            match lexeme.token {
                Token::Comma => {}
                Token::End => return Ok(Self { requirements }),
                _ => return Err(parser.unexpected(lexeme, "a comma or the end")),
            }
        }
    }

    /// Whether labels meet every requirement.
    pub(super) fn matches(&self, labels: &[(&str, &str)]) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// The one value that a label must have to match, where a requirement says so.
    pub(super) fn required_value(&self, key: &str) -> Option<&'a str> {
        self.requirements.iter().find_map(|requirement| match requirement.condition {
            Condition::In(ref values) if requirement.key == key && values.len() == 1 => Some(values[0]),
            _ => None,
        })
    }
}

impl Requirement<'_> {
    fn matches(&self, labels: &[(&str, &str)]) -> bool {
        let value = labels.iter().find(|(key, _)| *key == self.key).map(|(_, value)| *value);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.condition {
            Condition::In(values) => value.is_some_and(|value| values.contains(&value)),
            Condition::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Condition::Exists => value.is_some(),
            Condition::Absent => value.is_none(),
            Condition::Above(bound) => number().is_some_and(|number| number > *bound),
            Condition::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement<'a>, SelectorError> {
        let absent = self.lexer.peek().token == Token::Not;
        if absent {
            self.lexer.next();
        }
        let key = self.key()?;
        let condition = if absent { Condition::Absent } else { self.condition()? };
        Ok(Requirement { key, condition })
    }

    fn key(&mut self) -> Result<&'a str, SelectorError> {
        let lexeme = self.lexer.next();
        match lexeme.token {
            Token::Word(key) if is_label_key(key) => Ok(key),
            Token::Word(key) => Err(self.error(lexeme, format!("{} cannot be the key of a label", Quoted(key)))),
            _ => Err(self.unexpected(lexeme, "the key of a label")),
        }
    }

    fn condition(&mut self) -> Result<Condition<'a>, SelectorError> {
        if matches!(self.lexer.peek().token, Token::Comma | Token::End) {
            return Ok(Condition::Exists);
        }
        let operator = self.lexer.next();
        match operator.token {
            Token::Equals => Ok(Condition::In(vec![self.value()?])),
            Token::NotEquals => Ok(Condition::NotIn(vec![self.value()?])),
            Token::Word("in") => Ok(Condition::In(self.values()?)),
            Token::Word("notin") => Ok(Condition::NotIn(self.values()?)),
            Token::Above => Ok(Condition::Above(self.number()?)),
            Token::Below => Ok(Condition::Below(self.number()?)),
            _ => Err(self.unexpected(operator, "one of =, ==, !=, in, notin, >, <")),
        }
    }

    /// A value, empty where a comma, a closing parenthesis or the end stands in its place.
    fn value(&mut self) -> Result<&'a str, SelectorError> {
        let lexeme = self.lexer.peek();
        match lexeme.token {
            Token::Comma | Token::Close | Token::End => Ok(""),
            Token::Word(value) if is_label_value(value) => {
                self.lexer.next();
                Ok(value)
            }
            Token::Word(value) => Err(self.error(lexeme, format!("{} cannot be the value of a label", Quoted(value)))),
            _ => Err(self.unexpected(lexeme, "a value")),
        }
    }

    fn values(&mut self) -> Result<Vec<&'a str>, SelectorError> {
        let open = self.lexer.next();
        if open.token != Token::Open {
            return Err(self.unexpected(open, "an opening parenthesis"));
        }
        let first = self.lexer.peek();
        if first.token == Token::Close {
            return Err(self.unexpected(first, "at least one value"));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            let lexeme = self.lexer.next();
            match lexeme.token {
                Token::Comma => {}
                Token::Close => return Ok(values),
                _ => return Err(self.unexpected(lexeme, "a comma or a closing parenthesis")),
            }
        }
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let lexeme = self.lexer.peek();
        self.value()?.parse().map_err(|_| self.unexpected(lexeme, "a whole number"))
    }

    fn unexpected(&self, found: Lexeme<'a>, expected: &str) -> SelectorError {
        self.error(found, format!("expected {expected}, found {}", found.token))
    }

    fn error(&self, lexeme: Lexeme<'a>, problem: String) -> SelectorError {
        SelectorError { character: self.text[..lexeme.at].chars().count() + 1, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [(&str, &str); 3] = [("headroom.dev/autoscaler", "chat"), ("size", "8"), ("in", "")];

    #[test]
    fn selects_as_kubernetes_does() {
        for (text, expected) in [
            ("", true),
            ("  ", true),
            ("headroom.dev/autoscaler=chat", true),
            ("headroom.dev/autoscaler==chat", true),
            (" headroom.dev/autoscaler = chat , size = 8 ", true),
            ("headroom.dev/autoscaler=Chat", false),
            ("headroom.dev/Autoscaler=chat", false),
            ("headroom.dev/autoscaler=", false),
            ("headroom.dev/autoscaler!=chat", false),
            ("headroom.dev/autoscaler!=embed", true),
            ("other!=chat", true),
            ("other=chat", false),
            ("headroom.dev/autoscaler in (chat)", true),
            ("headroom.dev/autoscaler in (embed,chat)", true),
            ("headroom.dev/autoscaler in( embed , rerank )", false),
            ("headroom.dev/autoscaler notin (embed, rerank)", true),
            ("headroom.dev/autoscaler notin (chat)", false),
            ("other notin (chat)", true),
            ("size", true),
            ("!size", false),
            ("! other", true),
            ("other", false),
            ("size>7,size<9", true),
            ("size > 8", false),
            ("size<8", false),
            ("other>1", false),
            ("headroom.dev/autoscaler>1", false),
            ("in", true),
            ("in in (,)", true),
            ("in in (in,notin)", false),
            ("in=", true),
            ("in=,size", true),
            ("size in (7,,8)", true),
            ("size in (8,)", true),
            ("notin notin (notin)", true),
        ] {
            let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(selector.matches(&LABELS), expected, "{text:?}");
        }
    }

    #[test]
    fn says_where_a_text_is_no_selector() {
        for (text, character, problem) in [
            (",a", 1, "expected the key of a label, found a comma"),
            ("a,", 3, "expected the key of a label, found the end"),
            ("a,,b", 3, "expected the key of a label, found a comma"),
            ("!", 2, "expected the key of a label, found the end"),
            ("!!a", 2, "expected the key of a label, found \"!\""),
            ("=chat", 1, "expected the key of a label, found \"=\""),
            ("!a=b", 3, "expected a comma or the end, found \"=\""),
            ("a b", 3, "expected one of =, ==, !=, in, notin, >, <, found \"b\""),
            ("a!b", 2, "expected one of =, ==, !=, in, notin, >, <, found \"!\""),
            ("a===b", 4, "expected a value, found \"=\""),
            ("a=b c", 5, "expected a comma or the end, found \"c\""),
            ("a in chat", 6, "expected an opening parenthesis, found \"chat\""),
            ("a in ()", 7, "expected at least one value, found \")\""),
            ("a in (b", 8, "expected a comma or a closing parenthesis, found the end"),
            ("a in (b c)", 9, "expected a comma or a closing parenthesis, found \"c\""),
            ("a>", 3, "expected a whole number, found the end"),
            ("a>x", 3, "expected a whole number, found \"x\""),
            ("a<9223372036854775808", 3, "expected a whole number, found \"9223372036854775808\""),
            ("é=b", 1, "\"é\" cannot be the key of a label"),
            ("a=b,c=é", 7, "\"é\" cannot be the value of a label"),
            ("a=-b", 3, "\"-b\" cannot be the value of a label"),
        ] {
            let error = Selector::parse(text).unwrap_err();
            assert_eq!((error.character, error.problem.as_str()), (character, problem), "{text:?}");
        }
    }

    #[test]
    fn tells_the_required_value() {
        for (text, expected) in [
            ("a=b", Some("b")),
            ("x=y,a in (b)", Some("b")),
            ("a in (b,c)", None),
            ("a!=b", None),
            ("a", None),
            ("A=b", None),
            ("", None),
        ] {
            assert_eq!(Selector::parse(text).unwrap().required_value("a"), expected, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _ = Selector::parse(&text).map(|selector| selector.matches(&LABELS));
        }

        #[test]
        fn any_selector_like_text_is_read_or_refused(
            text in "([a-z]{1,3}|in|notin|[(),!=<> \t]|[0-9]{1,20}|é){0,12}"
        ) {
            let _ = Selector::parse(&text).map(|selector| selector.matches(&LABELS));
        }

        /// What a client builds is read back as it was meant.
        #[test]
        fn sets_mean_what_they_list(values in proptest::collection::vec("[a-z0-9]{1,5}", 1..6), value in "[a-z0-9]{1,5}") {
            let listed = values.contains(&value);
            let labels = [("key", value.as_str())];
            let within = format!("key in ({})", values.join(","));
            let without = format!("key notin ({})", values.join(", "));
            proptest::prop_assert_eq!(Selector::parse(&within).unwrap().matches(&labels), listed);
            proptest::prop_assert_eq!(Selector::parse(&without).unwrap().matches(&labels), !listed);
        }
    }
}
