package bench

import "math"

// Fig7Crossover is where repeated batch passes begin to cluster sooner than observers.
type Fig7Crossover struct {
	// First is the first rate, of those measured, at which the median latency of batch passes is lower, or Saturation holds.
	First float64 `json:"first_per_second"`
	// Rate is where the medians are equal, between First and the rate before it, if the logarithms of both go straight from one
	// to the other. Without a rate before it: First.
	Rate    float64 `json:"per_second"`
	Percent float64 `json:"percent_of_repository_per_hour"`
	// Saturation: at First observers are saturated and batch passes are not, but the time of the measurement was too short for
	// the medians to cross. Rate is then what the observers clustered there, or the rate before if that is higher.
	Saturation bool `json:"by_saturation"`
}

// fig7Crossover finds it among rates that ascend; nil if observers are faster at all of them.
func fig7Crossover(rates []Fig7Rate, documents int) *Fig7Crossover {
	slower := func(r Fig7Rate) float64 { return math.Log(r.Observers.Latency.P50 / r.Batch.Latency.P50) } // above 0: batch is faster
	for i, r := range rates {
		after, c := slower(r), Fig7Crossover{First: r.Rate, Rate: r.Rate}
		switch {
		case after > 0 && i > 0:
			before := slower(rates[i-1])
			c.Rate = rates[i-1].Rate * math.Pow(r.Rate/rates[i-1].Rate, before/(before-after))
		case after > 0:
		case r.Observers.Saturated && !r.Batch.Saturated:
			c.Saturation, c.Rate = true, r.Observers.Delivered
			if i > 0 {
				c.Rate = max(c.Rate, rates[i-1].Rate)
			}
		default:
			continue
		}
		c.Percent = percentPerHour(c.Rate, documents)
		return &c
	}
	return nil
}
