package text

import (
	"fmt"
	"strconv"
)

// The columns and the observers of a queue are as many as it has parts. They differ in the number
// of the part, three hexadecimal digits behind a hyphen, and count up from 000. Lists show them as
// one. Names that only end in such digits, as price-100 and price-200, are no parts.

// Part divides the name of a part into that of its queue and the number; false: it is none.
func Part(name string) (queue string, number int, is bool) {
	end := len(name) - len("-000")
	if end < 1 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(name[end+1:], 16, 12)
	return name[:end], int(n), err == nil && name == PartName(name[:end], int(n))
}

// PartName is the reverse of Part.
func PartName(queue string, number int) string { return fmt.Sprintf("%s-%03x", queue, number) }

// Follows reports whether two names are those of a part and of the next one.
func Follows(before, name string) bool {
	queue, number, is := Part(before)
	return is && name == PartName(queue, number+1)
}

// Queues divides a list: parts of one queue that stand together from its first on, and are alike,
// are together, all else is by itself.
func Queues[T any](list []T, name func(T) string, alike func(a, b T) bool) (divided [][]T) {
	for len(list) > 0 {
		n := 1
		if _, number, is := Part(name(list[0])); is && number == 0 {
			for n < len(list) && Follows(name(list[n-1]), name(list[n])) {
				n++
			}
		}
		for parts := list[:n]; len(parts) > 0; {
			same := 1
			for same < len(parts) && alike(parts[0], parts[same]) {
				same++
			}
			divided, parts = append(divided, parts[:same]), parts[same:]
		}
		list = list[n:]
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
