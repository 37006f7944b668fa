//go:build g1

package main

import "peers/autoscaler-client/protocol"

func nodePeriod(q *protocol.PricingNodePriceRequest) (int64, int64) {
	return q.StartTime.Unix(), q.EndTime.Unix()
}

func podPeriod(q *protocol.PricingPodPriceRequest) (int64, int64) {
	return q.StartTime.Unix(), q.EndTime.Unix()
}
