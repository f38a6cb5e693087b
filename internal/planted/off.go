//go:build !plantedbugs

package planted

// On reports whether the mistake is to be made: never.
func On(Bug) bool { return false }
