//! What runs cost, and when the machine was too busy with others for them to count.

mod child;
mod cpu;
mod files;
mod process;

pub use child::{Child, ChildError};
pub use cpu::{HostTimes, cores, pin_process, pin_thread, prefer_thread};
pub use files::raise_file_limit;
pub use process::{ProcessSample, cpu_time, cpu_time_of_thread, sample, thread_ids};
