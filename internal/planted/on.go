//go:build plantedbugs

package planted

import "sync/atomic"

var current atomic.Pointer[Bug]

// Plant switches b on, and whatever was on before off. An empty Bug switches everything off.
func Plant(b Bug) { current.Store(&b) }

// On reports whether the mistake is to be made.
func On(b Bug) bool {
	p := current.Load()
	return p != nil && *p == b
}
