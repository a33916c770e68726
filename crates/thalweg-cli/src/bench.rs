//! `thalweg bench`: the instrument of `thalweg-bench` with Thalweg, and with an engine that does nothing.

use crate::report::{Failure, io_advice};
use std::io::{self, Write};
use std::path::Path;
use thalweg_bench::command::{self, Bench};
use thalweg_bench::engine::{Null, Thalweg};
use thalweg_bench::process::Host;

const HOST: Host = Host {
    command: "thalweg bench",
    worker: &["bench", "worker"],
    factories: &[&Thalweg, &Null],
    engines: &["thalweg"],
};

pub fn run(args: &Bench, output: &mut dyn Write) -> Result<(), Failure> {
    command::run(&HOST, args, output).map_err(failure)
}

fn failure(error: thalweg_bench::Error) -> Failure {
    use thalweg_bench::Error;
    match &error {
        Error::Usage(_) => Failure::Usage(error.to_string()),
        Error::Exit(code) => Failure::Exit(*code),
        Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        Error::Io { source, .. } => match io_advice(Path::new(""), source) {
            Some(advice) => Failure::Said(format!("{error}; {advice}")),
            None => Failure::Said(error.to_string()),
        },
        _ => Failure::Said(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_bench::Error;

    #[test]
    fn an_error_of_the_system_comes_with_advice() {
        let error = Error::io("write run.json", io::Error::from(io::ErrorKind::NotFound));
        let text = failure(error).to_string();
        assert!(text.starts_with("cannot write run.json: ") && text.ends_with("; check the path"), "{text}");
    }

    #[test]
    fn a_wrong_word_a_signal_and_a_closed_pipe_have_their_exit_codes() {
        assert!(matches!(failure(Error::Usage("no such workload".into())), Failure::Usage(_)));
        assert!(matches!(failure(Error::Exit(130)), Failure::Exit(130)));
        let closed = Error::io("write the output", io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(failure(closed), Failure::OutputClosed));
    }
}
