//go:build unix && !plantedbugs

package tso

import "github.com/gopercolator/percolator/internal/planted"

// plantBug panics when a mistake is to be made: this binary was built without mistakes.
func plantBug(b planted.Bug) {
	if b != "" {
		panic("mistakes need the tag plantedbugs")
	}
}
