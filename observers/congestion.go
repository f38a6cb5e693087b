package observers

// congestion limits how many runs of one observer a worker has under way. Conflicting runs waste
// each other's work: when a thousand changed cells all add to one total, 32 runs at once need
// eighteen attempts for each commit, and a few at once need two. The limit halves about every seven
// conflicts and grows by one for as many commits as it is large. Like the window of a TCP
// connection, it stabilizes where conflicts become rare, and costs nothing where there are none.
//
// queue.mu guards it.
type congestion struct{ window, most float64 }

const shrink = 0.9

func newCongestion(most int) congestion { return congestion{float64(most), float64(most)} }

func (c *congestion) limit() int { return int(c.window) }

func (c *congestion) committed() { c.window = min(c.most, c.window+1/c.window) }

func (c *congestion) conflicted() { c.window = max(1, c.window*shrink) }
