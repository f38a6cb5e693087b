package ordered

// Map returns what of makes of each element of a list, in its order. It is never nil.
func Map[S, T any](list []S, of func(S) T) []T {
	out := make([]T, len(list))
	for i, e := range list {
		out[i] = of(e)
	}
	return out
}

// Evenly picks at most n elements of a list, evenly, in their order.
func Evenly[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	out := make([]T, n)
	for i := range out {
		out[i] = list[(i+1)*len(list)/(n+1)]
	}
	return out
}
