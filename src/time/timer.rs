//! A timer that is accurate to a few hundredths of a millisecond where the operating system supports that.
//!
//! The runtime's own timers count whole milliseconds and round up twice, so a task that sleeps until a key's deadline
//! wakes one to two milliseconds late. Here Linux signals the instant through a file descriptor (timerfd). On other
//! systems, or when no more files can be opened, the runtime's timers are used.

use std::time::Duration;

/// A timer for one wait at a time.
pub(crate) struct Timer(Option<precise::Timer>);

impl Timer {
    /// Opens a timer; must be called inside the runtime that waits.
    pub(crate) fn open() -> Self {
        Timer(precise::Timer::open().ok())
    }

    /// Waits for a duration. Cancel-safe.
    pub(crate) async fn wait(&self, time: Duration) {
        let is_over = match &self.0 {
            Some(timer) => timer.wait(time).await.is_ok(),
            None => false,
        };
        if !is_over {
            tokio::time::sleep(time).await;
        }
    }
}

#[cfg(target_os = "linux")]
mod precise {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A file descriptor that becomes readable at the set time.
    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        #[allow(
            deprecated,
            reason = "what replaces it is unsafe; it is unsound only for what is not a plain descriptor"
        )]
        pub(super) fn open() -> io::Result<Self> {
            let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            Ok(Timer(AsyncFd::with_interest(file, Interest::READABLE)?))
        }

        pub(super) async fn wait(&self, time: Duration) -> io::Result<()> {
            // A duration of zero would disarm the timer.
            let it_value = Timespec::try_from(time.max(Duration::from_nanos(1))).map_err(io::Error::other)?;
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
            let read = |file: &OwnedFd| rustix::io::read(file, &mut [0; 8]).map_err(io::Error::from);
            self.0.async_io(Interest::READABLE, read).await?;
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod precise {
    use std::io;
    use std::time::Duration;

    /// Placeholder for systems without timerfd.
    pub(super) enum Timer {}

    impl Timer {
        pub(super) fn open() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) async fn wait(&self, _: Duration) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock::Clock;

    #[tokio::test]
    async fn a_wait_takes_its_time_and_can_be_given_up() {
        let (clock, timer) = (Clock::system(), Timer::open());
        for _ in 0..3 {
            let begun = clock.now().mono_ms();
            let given_up = tokio::time::timeout(Duration::from_millis(5), timer.wait(Duration::from_secs(600))).await;
            assert!(given_up.is_err());
            timer.wait(Duration::ZERO).await;
            timer.wait(Duration::from_millis(20)).await;
            assert!(clock.now().mono_ms() - begun >= 24);
        }
    }
}
