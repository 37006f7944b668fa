//! Output that tolerates a reader that closes the pipe.

use std::io::{self, ErrorKind, Write};

/// An output whose reader may close the pipe. After that, drops everything that is written, so that
/// the work goes on.
pub(super) struct PipeOutput<'a, W> {
    out: &'a mut W,
    alone: bool,
}

impl<'a, W> PipeOutput<'a, W> {
    /// Wraps an output.
    pub(super) fn new(out: &'a mut W) -> Self {
        Self { out, alone: false }
    }
}

impl<W: Write> PipeOutput<'_, W> {
    fn unless_alone(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.alone = true;
                Ok(())
            }
            other => other,
        }
    }
}

impl<W: Write> Write for PipeOutput<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.alone {
            let result = self.out.write_all(bytes);
            self.unless_alone(result)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.alone {
            return Ok(());
        }
        let result = self.out.flush();
        self.unless_alone(result)
    }
}

/// True if the error says that the reader closed the pipe.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
