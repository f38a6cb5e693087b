//go:build unix && plantedbugs

package tso

import "github.com/gopercolator/percolator/internal/planted"

// plantBug makes this process make a mistake.
func plantBug(b planted.Bug) { planted.Plant(b) }
