//! The one integration binary.

mod bus_contract;
mod dead_letters;
mod faulty_log;
mod log_contract;
