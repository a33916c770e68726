//! [`LinuxStorage`]: files of the operating system.
#[derive(Debug, Default)]
pub struct LinuxStorage;
