// Package scanning decides how workers' scanners go through tables (section 2.4 of the paper):
// where they start, which part of a table is theirs, when they go elsewhere, how long they pause,
// and from which rows they keep others. [Source] reads and handles rows; clock and randomness are
// injected. So package observers and the simulation in package clumping of cmd/percolator-bench run
// the same code.
package scanning
