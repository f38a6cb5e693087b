package observers

// congestion decides how many runs of one observer a worker has under way. Runs that conflict with
// each other waste each other's work: when a thousand changed cells all add to one total, 32 of
// them at once need eighteen attempts for each run that commits, and a few at once need two. So the
// number is halved about every seven conflicts and grows by one for as many commits as it is large;
// that settles where conflicts become rare, like the window of a TCP connection, and costs nothing
// where there are none.
//
// It is guarded by queue.mu.
type congestion struct{ window, most float64 }

const shrink = 0.9

func newCongestion(most int) congestion { return congestion{float64(most), float64(most)} }

func (c *congestion) limit() int { return int(c.window) }

func (c *congestion) committed() { c.window = min(c.most, c.window+1/c.window) }

func (c *congestion) conflicted() { c.window = max(1, c.window*shrink) }
