//! [`join_bounded`]: runs futures of one coroutine at the same time, up to a bound.

use crate::error::Result;
use std::future::{Future, poll_fn};
use std::mem::replace;
use std::task::Poll;

/// Runs all `steps`, in their order, at most `at_once` at a time (and at least one). After an error it starts no more
/// and waits for those under way. Returns the first error.
pub(crate) async fn join_bounded<F>(steps: impl IntoIterator<Item = F>, at_once: usize) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let mut waiting = steps.into_iter().fuse();
    let (mut under_way, mut done) = (Vec::new(), Ok(()));
    poll_fn(|context| {
        loop {
            while done.is_ok() && under_way.len() < at_once.max(1) {
                let Some(step) = waiting.next() else { break };
                under_way.push(Box::pin(step));
            }
            if under_way.is_empty() {
                return Poll::Ready(replace(&mut done, Ok(())));
            }
            let begun = under_way.len();
            under_way.retain_mut(|step| match step.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    if done.is_ok() {
                        done = result;
                    }
                    false
                }
            });
            if under_way.len() == begun {
                return Poll::Pending;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// Runs a step for each of `polls`, which takes that many polls. Returns the history: `+` and `-` for the begin and
    /// the end of each step.
    fn run(polls: &[usize], at_once: usize, failing: Option<usize>) -> (Vec<String>, Result<()>) {
        let seen = RefCell::new(Vec::<String>::new());
        let step = |(number, &polls): (usize, &usize)| {
            let (seen, mut left) = (&seen, polls);
            seen.borrow_mut().push(format!("+{number}"));
            poll_fn(move |_| {
                left -= 1;
                if left > 0 {
                    return Poll::Pending;
                }
                seen.borrow_mut().push(format!("-{number}"));
                Poll::Ready(if failing == Some(number) { Err(Error::Closed) } else { Ok(()) })
            })
        };
        let mut all = pin!(join_bounded(polls.iter().enumerate().map(step), at_once));
        let result = loop {
            if let Poll::Ready(result) = all.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                break result;
            }
        };
        let seen = seen.borrow().clone();
        (seen, result)
    }

    #[test]
    fn steps_wait_together_and_the_next_begins_when_one_ends() {
        let (seen, result) = run(&[3, 1, 1, 1], 2, None);
        assert!(result.is_ok());
        assert_eq!(seen, ["+0", "+1", "-1", "+2", "-2", "+3", "-0", "-3"]);
        assert_eq!(run(&[2, 2], 0, None).0, ["+0", "-0", "+1", "-1"]);
        assert!(run(&[], 2, None).1.is_ok());
    }

    #[test]
    fn an_error_begins_nothing_and_leaves_nothing_under_way() {
        let (seen, result) = run(&[3, 1, 1], 2, Some(1));
        assert!(result.is_err());
        assert_eq!(seen, ["+0", "+1", "-1", "-0"]);
    }
}
