//go:build race

package emulator_test

// raced: the race detector is on, which makes everything some ten times slower.
const raced = true
