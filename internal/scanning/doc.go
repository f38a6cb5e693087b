// Package scanning is how the scanners of workers go through tables (section 2.4 of the paper):
// where they begin, what part of a table is theirs, when they leave for another place, how long
// they pause, and which rows they keep others off. What is to be read, and what happens with it, is
// behind [Source]; time and chance are given. So package observers and the simulation in package
// clumping of cmd/percolator-bench run the same code.
package scanning
