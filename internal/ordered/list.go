package ordered

// Map returns what of makes of each element of a list, in its order. It is never nil.
func Map[S, T any](list []S, of func(S) T) []T {
	out := make([]T, len(list))
	for i, e := range list {
		out[i] = of(e)
	}
	return out
}
