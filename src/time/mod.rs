//! Time: the only reader of the operating system's clock, deadlines, and a timer finer than the runtime's.

pub(crate) mod clock;
pub(crate) mod counter;
pub(crate) mod estimate;
pub(crate) mod timer;
