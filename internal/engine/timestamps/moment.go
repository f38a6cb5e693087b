package timestamps

import "time"

// Moment is what the clocks of this machine show. While the machine is suspended its monotonic
// clock stands still; its wall clock shows that once it was corrected.
type Moment struct {
	time.Time           // with the monotonic clock
	wall      time.Time // without
}

// Moment is the present.
func (s *Source) Moment() Moment {
	now := time.Now()
	if s.Wall != nil {
		return Moment{now, s.Wall().Round(0)}
	}
	return Moment{now, now.Round(0)} // Round strips the monotonic part
}

// Since is the time since an earlier moment, by the clock that shows more. So what a client keeps
// is never younger than one of them says. A wall clock that jumps ahead costs a request.
func (s *Source) Since(then Moment) time.Duration {
	now := s.Moment()
	return max(now.Sub(then.Time), now.wall.Sub(then.wall))
}
