package index

// CountInLinks is the observer, for tests that decide themselves when it runs.
var CountInLinks = countInLinks
