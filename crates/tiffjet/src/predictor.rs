//! Horizontal and floating-point predictors, both ways.
