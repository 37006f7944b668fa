//go:build g2

package main

import "peers/autoscaler-client/protocol"

func nodePeriod(q *protocol.PricingNodePriceRequest) (int64, int64) {
	return q.StartTime.Unix(), q.EndTimestamp.GetSeconds()
}

func podPeriod(q *protocol.PricingPodPriceRequest) (int64, int64) {
	return q.StartTimestamp.GetSeconds(), q.EndTime.Unix()
}
