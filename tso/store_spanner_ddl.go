package tso

// SpannerStatements returns the statements that create what oracles keep in a Spanner
// database. Each of them does nothing if that is there already.
func SpannerStatements() []string { return []string{SpannerDDL, SpannerSessionsDDL} }
