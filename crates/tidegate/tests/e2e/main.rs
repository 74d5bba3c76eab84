//! The real binary, from the outside: its command line, its start and end, its metrics, and real
//! applications behind it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod agent_alone;
mod backend;
mod balancers;
mod bodies;
mod breakers;
mod bus;
mod check;
mod client;
mod dependencies;
mod dependencies_egress;
mod dependencies_fleet;
mod deploy;
mod explain;
mod fleet_room;
mod journal;
mod languages;
mod limit_command;
mod limits;
mod limits_fleet;
mod limits_who;
mod metrics;
mod nodes;
mod process;
mod rls;
mod room_export;
mod rooms_door;
mod rooms_failure;
mod rooms_line;
mod rooms_operate;
mod rooms_tokens;
mod rooms_visitor;
mod run;
mod session_command;
mod sessions_commands;
mod sessions_cookies;
mod sessions_store;
mod sessions_visitor;
mod sim;
mod store_check;
mod tomcat;
mod verdicts;
mod warm;
