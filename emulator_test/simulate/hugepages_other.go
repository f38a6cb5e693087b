//go:build !linux

package main

func preferHugePages([]byte) {}
