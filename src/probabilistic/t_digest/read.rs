//! Estimates by the clusters of a t-digest.
//!
//! A cluster of weight 1 is one observation, at its mean. Half of the weight of any other lies on each side of its mean, and
//! the outermost observations are known exactly.

use crate::probabilistic::t_digest::state::{DigestHeader, Node, sorted_nodes};

/// The merged clusters of a digest, in the order of their means.
pub(crate) struct Clusters {
    pub(crate) nodes: Vec<Node>,
    smallest: f64,
    largest: f64,
    weight: f64,
}

/// The progress of a walk over the clusters, for quantiles in ascending order.
pub(crate) struct QuantileWalk {
    /// Number of the cluster on the left.
    at: usize,
    /// Weight up to the mean of that cluster.
    before: f64,
}

impl Clusters {
    /// Merges a copy of the nodes of a digest, if some are not merged.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut header = DigestHeader::of(bytes);
        let nodes = sorted_nodes(bytes);
        let nodes = if header.unmerged > 0 { header.merge(nodes) } else { nodes };
        Clusters { nodes, smallest: header.smallest, largest: header.largest, weight: header.weight() as f64 }
    }

    /// Returns the fraction of the observations that are smaller than a value, plus half of those that equal it.
    pub(crate) fn fraction_below(&self, value: f64) -> f64 {
        let (Some(&first), Some(&last)) = (self.nodes.first(), self.nodes.last()) else { return f64::NAN };
        if value < self.smallest {
            0.0
        } else if value > self.largest {
            1.0
        } else if self.nodes.len() == 1 {
            let width = self.largest - self.smallest;
            if value - self.smallest <= width { 0.5 } else { (value - self.smallest) / width }
        } else if value < first.0 {
            self.tail(value, self.smallest, first)
        } else if value > last.0 {
            1.0 - self.tail(value, self.largest, last)
        } else {
            self.fraction_between(value)
        }
    }

    /// Returns the fraction of the observations between the outermost one and a value on the same side of the first or
    /// last mean.
    fn tail(&self, value: f64, outermost: f64, (mean, weight): Node) -> f64 {
        let width = (mean - outermost).abs();
        let is_apart = width > 0.0;
        if !is_apart {
            0.0
        } else if value == outermost {
            0.5 / self.weight
        } else {
            (1.0 + (value - outermost).abs() / width * (weight as f64 / 2.0 - 1.0)) / self.weight
        }
    }

    /// Returns the fraction below a value between the first and the last mean.
    fn fraction_between(&self, value: f64) -> f64 {
        let mut before = 0.0;
        for pair in 0..self.nodes.len() - 1 {
            let ((mean, weight), (next_mean, next_weight)) = (self.nodes[pair], self.nodes[pair + 1]);
            let (weight, next_weight) = (weight as f64, next_weight as f64);
            if mean == value {
                let equal = self.nodes[pair..].iter().take_while(|(mean, _)| *mean == value);
                return (before + equal.map(|(_, weight)| *weight as f64).sum::<f64>() / 2.0) / self.weight;
            }
            if mean <= value && value < next_mean {
                if next_mean - mean <= 0.0 {
                    return (before + (weight + next_weight) / 2.0) / self.weight;
                }
                if weight == 1.0 && next_weight == 1.0 {
                    return (before + 1.0) / self.weight;
                }
                // An observation by itself lies at its mean, not between the means.
                let left = if weight == 1.0 { 0.5 } else { 0.0 };
                let right = if next_weight == 1.0 && weight != 1.0 { 0.5 } else { 0.0 };
                let between = (weight + next_weight) / 2.0 - left - right;
                let base = before + weight / 2.0 + left;
                return (base + between * (value - mean) / (next_mean - mean)) / self.weight;
            }
            before += weight;
        }
        1.0 - 0.5 / self.weight
    }

    /// Begins a walk for quantiles.
    pub(crate) fn walk(&self) -> QuantileWalk {
        QuantileWalk { at: 0, before: self.nodes.first().map_or(0.0, |(_, weight)| *weight as f64 / 2.0) }
    }

    /// Returns the value at a quantile, from 0 to 1, which is not smaller than the walk's last one.
    pub(crate) fn quantile(&self, walk: &mut QuantileWalk, quantile: f64) -> f64 {
        match self.nodes[..] {
            [] => f64::NAN,
            [(mean, _)] => mean,
            _ => self.value_at(walk, quantile * self.weight),
        }
    }

    /// Returns the value whose rank is an index.
    pub(crate) fn by_rank(&self, rank: f64) -> f64 {
        let quantile = rank / self.weight;
        match self.nodes[..] {
            [] => f64::NAN,
            [(mean, _)] => mean,
            _ if quantile * self.weight < 1.0 => self.smallest,
            _ => self.quantile(&mut self.walk(), quantile),
        }
    }

    fn value_at(&self, walk: &mut QuantileWalk, index: f64) -> f64 {
        let ((first_mean, first_weight), (last_mean, last_weight)) = (self.nodes[0], self.nodes[self.nodes.len() - 1]);
        let (first_half, last_half) = (first_weight as f64 / 2.0, last_weight as f64 / 2.0);
        if first_weight > 1 && index < first_half {
            return self.smallest + (index - 1.0) / (first_half - 1.0) * (first_mean - self.smallest);
        }
        if index > self.weight - 1.0 {
            return self.largest;
        }
        if last_weight > 1 && self.weight - index <= last_half {
            let above = (self.weight - index - 1.0) / (last_half - 1.0);
            return self.largest - above * (self.largest - last_mean);
        }
        while walk.at + 1 < self.nodes.len() {
            let ((mean, weight), (next_mean, next_weight)) = (self.nodes[walk.at], self.nodes[walk.at + 1]);
            let between = (weight as f64 + next_weight as f64) / 2.0;
            if walk.before + between > index {
                let (from_left, from_right) = (index - walk.before, walk.before + between - index);
                if weight == 1 && from_left < 0.5 {
                    return mean;
                }
                if next_weight == 1 && from_right <= 0.5 {
                    return next_mean;
                }
                let left = if weight == 1 { 0.5 } else { 0.0 };
                let right = if next_weight == 1 { 0.5 } else { 0.0 };
                return weighted_mean((mean, from_right - right), (next_mean, from_left - left));
            }
            walk.before += between;
            walk.at += 1;
        }
        let above = index - self.weight - last_half;
        weighted_mean((last_mean, above), (self.largest, last_half - above))
    }

    /// Returns the mean of the observations between two quantiles.
    pub(crate) fn trimmed_mean(&self, low: f64, high: f64) -> f64 {
        if let [(mean, _)] = self.nodes[..] {
            return mean;
        }
        let (from, to) = ((self.weight * low).floor(), (self.weight * high).ceil());
        let (mut before, mut sum, mut count) = (0.0, 0.0, 0.0);
        for (mean, weight) in &self.nodes {
            let weight = *weight as f64;
            let above = weight - (from - before).max(0.0).min(weight);
            let inside = above.min((to - before).max(0.0));
            before += weight;
            sum += mean * inside;
            count += inside;
            if before >= to {
                break;
            }
        }
        sum / count
    }
}

/// Returns the mean of two weighted values, which lies between them even where rounding or weights would not have it.
fn weighted_mean((one, weight): (f64, f64), (other, other_weight): (f64, f64)) -> f64 {
    let mean = (one * weight + other * other_weight) / (weight + other_weight);
    one.min(other).max(mean.min(one.max(other)))
}
