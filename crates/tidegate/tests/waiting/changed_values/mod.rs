//! Values that change while requests wait: amended rules, plans, and values that requests supply.

mod amended;
mod limiter_plans;
mod plans;
