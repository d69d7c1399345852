//! tidegate-core
