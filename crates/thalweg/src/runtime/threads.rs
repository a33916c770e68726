//! [`ThreadScheduler`]: the production scheduler, one worker thread a lane.
