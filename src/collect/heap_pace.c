/* The pace of heap samples; see the header.
 *
 * Events are counted in slices of time, which end after so many events or so long. What a slice
 * spent says how fast the program allocates; the distance that follows is the one at which this
 * spends as much as the credit allows: the budget when half of it is left, more above, less
 * below. So lasting load ends with half of the credit, whatever comes before it.
 */
#include "collect/heap_pace.h"

enum { SLICE_EVENTS = 128 };

static const int64_t SLICE_NS = 50000000;
static const double MOST_STEP = 4;
static const double NS = 1e9;
/* Time gives back half of the credit, with which the budget is spent. A program that works now and
 * then, as a service with few requests does, would pay for what it saved in all its work. The other
 * half is for the start, when most is built that stays. */
static const double HALF = PYR_HEAP_BURST / 2.0;
/* A distance set by hand counts as overruled when so much credit has been spent. */
static const double PUSHED = PYR_HEAP_BURST - 2048;
/* Of the budget, with all of the credit and with none of it. */
static const double MOST_RATE = 10, LEAST_RATE = 0.25;
/* What is built at the start is known to 1.5 %, however much it is and however fast: the distance
 * may be this part of it, since then the squared error, the integral of the distance over all
 * bytes, is half of that part of the square of what was built (as long as more than half of the
 * credit is left). */
static const double PART = 2 * 0.015 * 0.015;
/* Allocations that are all larger than the farthest distance are all sampled: where even they
 * break the budget, in debt, there is no end to it. */
static const double BEYOND = 0x1p50;

void pyr_heap_pace_init(pyr_heap_pace *pace, int64_t set_bytes, double quota_cores, int64_t now_ns)
{
    *pace = (pyr_heap_pace){
        .distance = set_bytes > 0 ? (double)set_bytes : PYR_HEAP_FIRST,
        .nearest = set_bytes > 0 ? (double)set_bytes : PYR_HEAP_NEAREST,
        .budget = PYR_HEAP_EVENTS_PER_S * (quota_cores > 0 && quota_cores < 1 ? quota_cores : 1),
        .credit = PYR_HEAP_BURST,
        .earned_ns = now_ns,
        .slice_ns = now_ns,
        .is_set = set_bytes > 0,
    };
}

/* Credit a second that may be spent now. */
static double allowed_rate(double credit, double budget)
{
    double share = credit > HALF ? 1 + (MOST_RATE - 1) * (credit - HALF) / HALF
                                 : LEAST_RATE + (1 - LEAST_RATE) * credit / HALF;
    return budget * (share > LEAST_RATE ? share : LEAST_RATE);
}

static double bounded(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

static void end_slice(pyr_heap_pace *pace, int64_t now_ns)
{
    int64_t took_ns = now_ns - pace->slice_ns;
    double rate = pace->slice_spent * NS / (double)(took_ns > 0 ? took_ns : 1);
    double step =
        bounded(rate / allowed_rate(pace->credit, pace->budget), 1 / MOST_STEP, MOST_STEP);
    double farthest = pace->credit < -PYR_HEAP_BURST ? BEYOND : PYR_HEAP_FARTHEST;
    farthest = pace->credit > HALF ? PART * pace->built : farthest;
    double most = pace->nearest > farthest ? pace->nearest : farthest;
    pace->distance = bounded(pace->distance * step, pace->nearest, most);
    pace->is_pushed |= pace->is_set && pace->distance > pace->nearest && pace->credit < PUSHED;
    pace->slice_ns = now_ns;
    pace->slice_events = 0;
    pace->slice_spent = 0;
}

void pyr_heap_pace_rest(pyr_heap_pace *pace, int64_t now_ns)
{
    double earned = pace->credit + (double)(now_ns - pace->earned_ns) / NS * pace->budget;
    double most = pace->credit > HALF ? pace->credit : HALF;
    pace->credit = earned < most ? earned : most;
    pace->earned_ns = now_ns;
    if (pace->slice_events >= SLICE_EVENTS || now_ns - pace->slice_ns >= SLICE_NS) {
        end_slice(pace, now_ns);
    }
}

void pyr_heap_pace_event(pyr_heap_pace *pace, int64_t now_ns, uint32_t cost)
{
    pace->slice_events++;
    pace->built += pace->distance;
    pace->slice_spent += cost;
    pace->credit = pace->credit > -2.0 * PYR_HEAP_BURST ? pace->credit - cost : pace->credit;
    pyr_heap_pace_rest(pace, now_ns);
}
