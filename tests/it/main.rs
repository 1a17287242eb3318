//! The one integration binary.

mod bus_contract;
mod log_contract;
