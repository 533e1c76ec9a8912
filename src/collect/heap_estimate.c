/* Poisson sampling by bytes; see the header and docs/design/0008-heap-estimates.md.
 *
 * Pure arithmetic; owns nothing. Called in hooks, for sampled allocations only.
 */
#include "collect/heap_estimate.h"

#include <math.h>

/* Of what is still to be said, the part that one sample says. Small: a site's samples are hardly
 * noisier for it (by 3 % in variance). Large enough: a thread's total is right within about three
 * distances, however long it runs. */
static const double GAIN = 1.0 / 16;
/* Before any sample, the smallest objects are taken to be the noisiest: as much as this part of a
 * sample would tell. */
static const double SMALL = 16, BELIEF = 1.0 / 1024;
/* What was learned longer ago is half forgotten when the sum passes this. */
static const double MEMORY = 0x1p80;
/* No correction may change a weight by more. */
static const double MOST_CORRECTION = 0.5;
static const double SIGMAS_95 = 1.959964;

uint64_t pyr_heap_random(uint64_t *state)
{
    uint64_t x = *state != 0 ? *state : UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

double pyr_heap_uniform(uint64_t *state)
{
    return (double)(pyr_heap_random(state) >> 11) * 0x1p-53;
}

int64_t pyr_heap_draw(uint64_t *state, double distance)
{
    double bytes = -log(1.0 - pyr_heap_uniform(state)) * distance;
    return bytes < 1 ? 1 : bytes > 0x1p60 ? INT64_C(1) << 60 : (int64_t)bytes;
}

double pyr_heap_chance(double size, double distance)
{
    return -expm1(-size / distance);
}

static double bounded(double value, double most)
{
    return value > most ? most : value < -most ? -most : value;
}

/* A sample stands for more objects the smaller they are, so the error of a total count comes from
 * the smallest ones, and belongs there: samples are corrected in proportion to the square of what
 * they stand for, or sites that are known well would share the error of those that are not. The
 * count, squared, that takes the whole gain: that of samples from which most of the error comes. */
static double noisy_count(pyr_heap_account *account, double distance)
{
    if (account->squares == 0) {
        double count = distance / SMALL;
        account->squares = BELIEF * count * count;
        account->cubes = BELIEF * count * count * count;
    }
    double count = account->cubes / account->squares;
    return count * count;
}

static void learn(pyr_heap_account *account, double count)
{
    account->squares += count * count;
    account->cubes += count * count * count;
    if (account->cubes > MEMORY) {
        account->squares /= 2;
        account->cubes /= 2;
    }
}

pyr_heap_weight pyr_heap_weigh(pyr_heap_account *account, double size, double distance,
                               double bytes_before, double count_before)
{
    double chance = pyr_heap_chance(size, distance);
    double said_bytes = size / chance, said_count = 1 / chance;
    account->carry_bytes += bytes_before;
    account->carry_count += count_before;
    /* Both factors depend on the size alone, and what is carried is 0 in the mean whatever the size
     * is that comes next: the correction adds no bias. An allocation that is surely sampled needs
     * none. */
    double correction = GAIN * account->carry_bytes * (1 - chance);
    said_bytes += bounded(correction, MOST_CORRECTION * said_bytes);
    correction = GAIN * account->carry_count * (1 - chance) * said_count * said_count /
                 noisy_count(account, distance);
    said_count += bounded(correction, MOST_CORRECTION * said_count);
    learn(account, 1 / chance);
    pyr_heap_weight weight = {
        .bytes = said_bytes,
        .count = said_count,
        .variance_bytes = (1 - chance) * (size / chance) * (size / chance),
        .variance_count = (1 - chance) / (chance * chance),
    };
    account->carry_bytes += size - weight.bytes;
    account->carry_count += 1 - weight.count;
    const double stays = 1 - GAIN * (1 - chance);
    account->variance = stays * stays * account->variance + weight.variance_bytes;
    return weight;
}

void pyr_heap_miss(pyr_heap_account *account, double size, double distance, double bytes_before,
                   double count_before)
{
    double chance = pyr_heap_chance(size, distance);
    account->carry_bytes += bytes_before + size;
    account->carry_count += count_before + 1;
    account->variance += (1 - chance) * (size / chance) * (size / chance);
}

void pyr_heap_errors_add(pyr_heap_errors *errors, double size, double sampled, double thinned_to)
{
    double first = pyr_heap_chance(size, sampled), both = pyr_heap_chance(size, thinned_to);
    /* It stands for `first / both` samples like itself. */
    double of_samples = (1 - first) / first * size * size / both;
    errors->live += of_samples;
    errors->thinned += (1 - both) * (size / both) * (size / both) - of_samples;
}

double pyr_heap_live_variance(const pyr_heap_errors *errors)
{
    double share = errors->sampled > 0 ? errors->live / errors->sampled : 0;
    share = share < 1 ? share : 1;
    double spread = (1 - share) * errors->live + share * share * errors->totals;
    return (spread < errors->live ? spread : errors->live) + errors->thinned;
}

/* The quantile of a gamma distribution of shape `shape` at `sigmas` of the normal one, after Wilson
 * and Hilferty: good to a percent from shape 1/2 on. */
static double gamma_quantile(double shape, double sigmas)
{
    double root = 1 - 1 / (9 * shape) + sigmas / (3 * sqrt(shape));
    return root > 0 ? shape * root * root * root : 0;
}

void pyr_heap_interval(double sum, double variance, double *low, double *high)
{
    *low = *high = sum > 0 ? sum : 0;
    if (!(sum > 0) || !(variance > 0)) {
        return;
    }
    /* As many samples of equal weight would have this variance. Their number is a Poisson variable;
     * the interval for its mean is that of Jeffreys, which is right also where they are few. */
    double weight = variance / sum;
    double samples = sum / weight;
    *low = weight * gamma_quantile(samples + 0.5, -SIGMAS_95);
    *high = weight * gamma_quantile(samples + 0.5, SIGMAS_95);
}
