package index

// CollectAnchors is the observer, for tests that decide themselves when it runs.
var CollectAnchors = collectAnchors
