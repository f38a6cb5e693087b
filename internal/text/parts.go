package text

import "fmt"

// The columns and the observers of a queue are as many as it has parts. They differ in the number
// of the part, three hexadecimal digits behind a hyphen. Lists show them as one.

// PartOf is the name that a part of a queue has without its number; false: it is none.
func PartOf(name string) (queue string, part bool) {
	end := len(name) - len("-000")
	if end < 1 || name[end] != '-' {
		return name, false
	}
	for _, c := range []byte(name[end+1:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return name, false
		}
	}
	return name[:end], true
}

// Queues divides a list: parts of one queue that stand together are together, all else is by
// itself.
func Queues[T any](list []T, name func(T) string, alike func(a, b T) bool) (divided [][]T) {
	for _, x := range list {
		if last := len(divided) - 1; last >= 0 {
			before := divided[last][0]
			a, isPart := PartOf(name(before))
			b, part := PartOf(name(x))
			if isPart && part && a == b && alike(before, x) {
				divided[last] = append(divided[last], x)
				continue
			}
		}
		divided = append(divided, []T{x})
	}
	return divided
}

// Span names what was divided: the first of several, and how the last ends.
func Span(first, last string, n int) string {
	if n == 1 {
		return first
	}
	return fmt.Sprintf("%s…%s (%d)", first, last[len(last)-len("000"):], n)
}

// Spans are names in which each queue is one.
func Spans(names []string) (short []string) {
	self := func(name string) string { return name }
	for _, part := range Queues(names, self, func(_, _ string) bool { return true }) {
		short = append(short, Span(part[0], part[len(part)-1], len(part)))
	}
	return short
}
