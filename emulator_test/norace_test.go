//go:build !race

package emulator_test

const raced = false
