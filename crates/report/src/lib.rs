//! Reads run directories: analysis, model, charts, renderers.
