package export

import "sync"

// division is the ranges of a table among those that read them. Each reads a stretch of neighbours,
// so that small ones share a file.
type division struct {
	mu        sync.Mutex
	stretches []*stretch
	read      int   // ranges
	bytes     int64 // that were in them
}

// stretch is ranges that one reader has before it, by their numbers.
type stretch struct{ next, end int }

// divide makes a stretch for each reader, as far as ranges go.
func divide(ranges, readers int) *division {
	d := &division{}
	readers = min(readers, ranges)
	for i := range readers {
		d.stretches = append(d.stretches, &stretch{i * ranges / readers, (i + 1) * ranges / readers})
	}
	return d
}

// take takes the next range of a stretch.
func (d *division) take(s *stretch) (number int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.next == s.end {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

// done counts a range that was read.
func (d *division) done(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read++
	d.bytes += bytes
}

// help takes the second half of the longest stretch that is left, if that is likely to fill a file;
// else it is nil.
func (d *division) help(fileBytes int64) *stretch {
	d.mu.Lock()
	defer d.mu.Unlock()
	var longest *stretch
	for _, s := range d.stretches {
		if longest == nil || s.end-s.next > longest.end-longest.next {
			longest = s
		}
	}
	half := (longest.end - longest.next) / 2
	if half == 0 || d.read == 0 || d.bytes/int64(d.read)*int64(half) < fileBytes {
		return nil
	}
	s := &stretch{longest.end - half, longest.end}
	longest.end = s.next
	d.stretches = append(d.stretches, s)
	return s
}
