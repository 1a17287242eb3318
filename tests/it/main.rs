//! The one integration binary.

mod bus_contract;
