package ycsb

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// zipfConstant is YCSB's.
const zipfConstant = 0.99

// zipf chooses numbers below n, the smaller the more popular, by the method of Gray et al. (SIGMOD
// 1994), as YCSB does.
type zipf struct {
	n         int64
	zeta, eta float64
}

func newZipf(n int64) *zipf {
	z := new(zipf)
	z.grow(n)
	return z
}

// grow makes n larger.
func (z *zipf) grow(n int64) {
	for ; z.n < n; z.n++ {
		z.zeta += math.Pow(float64(z.n+1), -zipfConstant)
	}
	z.learn()
}

func (z *zipf) learn() {
	two := 1 + math.Pow(2, -zipfConstant)
	z.eta = (1 - math.Pow(2/float64(z.n), 1-zipfConstant)) / (1 - two/z.zeta)
}

func (z *zipf) next(random *rand.Rand) int64 {
	u := random.Float64()
	switch at := u * z.zeta; {
	case at < 1:
		return 0
	case at < 1+math.Pow(2, -zipfConstant):
		return min(1, z.n-1)
	}
	return min(z.n-1, int64(float64(z.n)*math.Pow(z.eta*u-z.eta+1, 1/(1-zipfConstant))))
}

// allNumbers is the zipf that YCSB scatters over fewer numbers; its zeta takes long to add up.
func allNumbers() *zipf {
	z := &zipf{n: 10_000_000_000, zeta: 26.46902820178302}
	z.learn()
	return z
}

// scatter is YCSB's hash: FNV-1a, not negative.
func scatter(n int64) int64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return int64(h.Sum64() &^ (1 << 63))
}
