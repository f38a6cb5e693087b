package measure

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// flags are those of one benchmark, each with its default, its value under --short, and its bounds.
type flags struct {
	set     *pflag.FlagSet
	shorten map[string]func()
	checks  []func() error
}

// quantity is what a flag with bounds may be.
type quantity interface {
	int | int64 | uint64 | float64 | time.Duration
}

// number declares a flag.
func number[T quantity](f *flags, to *T, name string, value, short, least, most T, usage string) {
	switch p := any(to).(type) {
	case *int:
		f.set.IntVar(p, name, any(value).(int), usage)
	case *int64:
		f.set.Int64Var(p, name, any(value).(int64), usage)
	case *uint64:
		f.set.Uint64Var(p, name, any(value).(uint64), usage)
	case *float64:
		f.set.Float64Var(p, name, any(value).(float64), usage)
	case *time.Duration:
		f.set.DurationVar(p, name, any(value).(time.Duration), usage)
	}
	f.onShort(name, func() { *to = short })
	f.check(func() error { return within(name, *to, least, most) })
}

// numbers declares a flag with a list of at least one.
func numbers[T int | float64](f *flags, to *[]T, name string, value, short []T, least, most T, usage string) {
	switch p := any(to).(type) {
	case *[]int:
		f.set.IntSliceVar(p, name, any(value).([]int), usage)
	case *[]float64:
		f.set.Float64SliceVar(p, name, any(value).([]float64), usage)
	}
	f.onShort(name, func() { *to = short })
	f.check(func() error {
		errs := []error{within(name, len(*to), 1, 100)}
		for _, n := range *to {
			errs = append(errs, within(name, n, least, most))
		}
		return errors.Join(errs...)
	})
}

// ascending refuses a list that is not.
func ascending[T int | float64](name string, list []T) error {
	for i := range max(len(list)-1, 0) {
		if list[i+1] <= list[i] {
			return usagef("--%s %v do not ascend", name, list)
		}
	}
	return nil
}

// names declares a flag with a list of names.
func (f *flags) names(to *[]string, name string, value, short, known []string, usage string) {
	f.set.StringSliceVar(to, name, value, usage)
	f.onShort(name, func() { *to = short })
	f.check(func() error {
		for _, n := range *to {
			if !slices.Contains(known, n) {
				return usagef("--%s %q is none of %s", name, n, strings.Join(known, ", "))
			}
		}
		return nil
	})
}

// one declares a flag with one of the known names, of which the first is the default.
func (f *flags) one(to *string, name, letter string, known []string, usage string) {
	f.set.StringVarP(to, name, letter, known[0], usage)
	f.check(func() error {
		if !slices.Contains(known, *to) {
			return usagef("--%s %q is none of %s", name, *to, strings.Join(known, ", "))
		}
		return nil
	})
}

// toggle declares a flag that is off unless given, or unless short says so.
func (f *flags) toggle(to *bool, name string, short bool, usage string) {
	f.set.BoolVar(to, name, false, usage)
	f.onShort(name, func() { *to = short })
}

// check adds one more condition, which is asked for when all flags are set.
func (f *flags) check(ok func() error) { f.checks = append(f.checks, ok) }

func (f *flags) onShort(name string, shorten func()) {
	if f.shorten == nil {
		f.shorten = map[string]func(){}
	}
	f.shorten[name] = shorten
}

// settle shortens what was not given, if short, and returns everything that is wrong.
func (f *flags) settle(short bool) error {
	for name, shorten := range f.shorten {
		if short && !f.set.Changed(name) {
			shorten()
		}
	}
	var errs []error
	for _, ok := range f.checks {
		errs = append(errs, ok())
	}
	return errors.Join(errs...)
}

// within refuses numbers that a flag must not have.
func within[T quantity](flag string, n, least, most T) error {
	if n < least || n > most {
		return usagef("--%s %v is not between %v and %v", flag, n, least, most)
	}
	return nil
}
