package gc

// seqs are numbers of rows of a stream, in order, as pairs of the first and the last of a range.
type seqs []uint64

// with adds a number above all others.
func (s seqs) with(seq uint64) seqs {
	if n := len(s); n > 0 && s[n-1]+1 == seq {
		s[n-1] = seq
		return s
	}
	return append(s, seq, seq)
}

// size is how many numbers there are.
func (s seqs) size() (n int) {
	for i := 0; i < len(s); i += 2 {
		n += int(s[i+1] - s[i] + 1)
	}
	return n
}

func (s seqs) contains(seq uint64) bool {
	for i := 0; i < len(s); i += 2 {
		if s[i] <= seq && seq <= s[i+1] {
			return true
		}
	}
	return false
}

// after is what is left of s above a number.
func (s seqs) after(seq uint64) seqs {
	for len(s) > 0 && s[1] <= seq {
		s = s[2:]
	}
	if len(s) > 0 && s[0] <= seq {
		s = append(seqs{seq + 1}, s[1:]...)
	}
	return s
}

// valid reports whether s is what with makes of growing numbers.
func (s seqs) valid() bool {
	if len(s)%2 != 0 || len(s) > 0 && s[0] == 0 {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < s[i-1] || i%2 == 0 && s[i] == s[i-1] {
			return false
		}
	}
	return true
}
